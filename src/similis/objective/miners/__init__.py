"""Miners: which pairs or triplets of a batch a loss is restricted to.

Comes in: similarity, positive and negative masks (B, M), all detached. Goes out: Pairs or Triplets.
May import: the objective room, registry, values. May not: losses, anything with state.
To add one: write ``mine.py`` here with ``@register_miner`` and ``tests/objective/miners/test_mine.py``.
"""

from similis.registry import miners as _miners

_miners.fill()
