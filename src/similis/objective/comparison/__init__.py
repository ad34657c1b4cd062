"""What a formula is written against: comparisons, reductions, references, proxies, soft ranks, angles.

A loss file imports from this package alone; how a comparison is computed is the business of ``backends``.
"""
