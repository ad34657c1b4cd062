"""Samplers, one file each: pure functions from labels, seed and epoch to batches of row numbers.

Comes in: labels (N,), batch size, seed, epoch. Goes out: Tensor (batches, B) of positions in the labels.
May import: the data package's draws, registry, values. May not: manifests, the loader; a global random state.
To add one: write ``mine.py`` here with ``@register_sampler`` and ``tests/data/samplers/test_mine.py``.
"""
