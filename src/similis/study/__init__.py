"""Studies: plan, search (the only package that imports Optuna), statistics, report, and the tournament over them.

Input: a plan file. Output: run records, a ledger of test openings, verdicts, a report.
To add a statistic: a pure function of the scores in ``statistics/``, a table in ``report/``, a line in its template.
"""
