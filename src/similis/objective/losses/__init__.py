"""Losses, one file each: formula, paper, code.

Comes in: embeddings, labels, proxies or references. Goes out: a scalar.
May import: the objective room, registry, values. May not: engine, model, data, any other loss's file.
To add one: write ``mine.py`` here with ``@register_loss`` and ``tests/objective/losses/test_mine.py``.
"""

from similis.registry import losses as _losses

_losses.fill()
