"""Metrics as pure functions: of the ranks of matches, of two partitions, of a set of vectors.

Comes in: tensors only. Goes out: one value per query (never their mean), or one number of the whole set.
May import: values, torch. May not: search, evaluate, any other package.
To add one: write the function with formula, reference and example in the file of its family, and a test.
"""
