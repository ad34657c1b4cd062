"""How comparisons are computed: one dense matrix, or tiles; ``base`` and ``choice`` say which."""
