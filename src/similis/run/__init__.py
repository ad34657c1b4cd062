"""The run room: a RunSpec becomes a RunResult. The only room that knows every room below.

Comes in: a validated RunSpec, a folder for runs. Goes out: a RunResult, and the run folder it was read from.
May import: training, retrieval, figures, data, model, objective, engine. May not: study, sklearn, cli.
To add a setting: one field with a docstring in ``spec.py``, used in one place here.
"""
