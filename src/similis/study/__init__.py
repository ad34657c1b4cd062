"""The study room: protocols, search, tournament, judgement, report. The only door to Optuna.

Comes in: a plan file. Goes out: run records, a ledger of test openings, verdicts, a report.
May import: run and everything below it. May not: sklearn, cli.
To add a way of judging: a pure function of the scores in its own file, and one section in ``report.py``.
"""
