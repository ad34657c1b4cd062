"""The training room: optimiser groups, schedules, the loop, gradient caching, checkpoints, the run folder.

Comes in: a model, a loss, batches, callables for validation and display. Goes out: weights, metrics, files.
May import: data, model, objective, engine, registry, values. May not: retrieval, figures, run, study.
To add an optimiser or a schedule: one entry in ``optimisers.py`` and its test.
"""
