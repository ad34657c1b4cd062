"""How comparisons are computed: one dense matrix, tiles, a ring of ranks; ``base`` and ``choice`` say which."""
