"""The retrieval room: embed, search exactly, evaluate, verify, classify, and the only door to faiss.

Comes in: a model and batches, or ready vectors with labels. Goes out: Embedded, Neighbors, Evaluation,
Verification, Classified.
May import: registry, values, torch, numpy; faiss in ``index.py`` only. May not: training, figures, data, model.
To add a metric: a pure function in ``metrics/`` with its test, and one line in ``evaluate.py``.
"""
