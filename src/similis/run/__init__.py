"""A run: a RunSpec becomes a RunResult in a run folder.

Comes in: a validated RunSpec, a folder for runs. Goes out: a RunResult, and the run folder it is read from.
To add a setting: one field with a docstring in ``spec.py``, used in one place here.
"""
