"""Regularisers: terms that are added to a loss.

Comes in: embeddings, labels, what the term compares with. Goes out: a scalar.
May import: the objective room, registry, values. May not: losses.
To add one: write ``mine.py`` here with ``@register_regulariser`` and its test of the same name.
"""

from similis.registry import regularisers as _regularisers

_regularisers.fill()
