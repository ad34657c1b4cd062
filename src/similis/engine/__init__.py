"""The engine room: the only door to many processes.

Comes in: a function and items, or a function for processes that share a batch. Goes out: its results, in order.
Files: ``local`` and ``ray`` (items for many processes), ``group``, ``ranks`` and ``gang`` (processes that talk),
``collectives`` (what they say), ``costs``.
May import: registry, values. May not: any other room.
To add an engine: a file with a function ``map(function, items, *, workers)`` that keeps the order.
"""
