"""Networks: backbone, pooling, head and normalisation make an image into an embedding; text into class similarities.

Comes in: names of choices, weight files, image tensors. Goes out: an Embedder, its Preprocessing, its weights' hash.
To add a backbone: two files, ``backbones/mine.py`` and ``tests/networks/backbones/test_mine.py``.
"""
