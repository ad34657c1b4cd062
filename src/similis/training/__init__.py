"""Optimiser groups, schedules, the loop, gradient caching, checkpoints, the run folder.

Comes in: a model, a loss, batches, callables for validation and display. Goes out: weights, metrics, files.
To add an optimiser or a schedule: one entry in ``optimisers.py`` and its test.
"""
