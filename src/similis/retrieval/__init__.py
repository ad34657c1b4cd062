"""Embed, search exactly, evaluate, verify, classify, index; the only importer of faiss.

Comes in: a model and batches, or ready vectors with labels. Goes out: Embedded, Neighbors, Evaluation,
Verification, Classified.
To add a metric: a pure function in ``metrics/`` with its test, and one line in ``evaluate.py``.
"""
