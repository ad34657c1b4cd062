"""Comparisons in tiles: readers, tile schedules, reductions, and the one autograd Function of all of them."""
