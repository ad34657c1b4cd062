"""Losses as reductions of rows, miners, language guidance, learned proxies.

Comes in: embeddings, labels, references. Goes out: a scalar with its gradient, mined tuples with counts.
To add a loss: two files, ``losses/mine.py`` and ``tests/objective/losses/test_mine.py``.
"""
