"""The report of a tournament: tables and pictures in Python, prose in ``templates``.

``report.j2`` holds the text once; ``markdown.j2`` and ``html.j2`` say how its blocks look in each format.
"""
