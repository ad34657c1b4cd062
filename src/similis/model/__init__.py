"""The model room: backbone, pooling, head and normalisation make an image into an embedding; text into classes.

Comes in: names of choices, weight files, image tensors. Goes out: an Embedder, its Preprocessing, its weights' hash.
May import: registry, values, torch, safetensors; timm and sentence-transformers when used. May not: any other room.
To add a backbone: two files, ``backbones/mine.py`` and ``tests/model/backbones/test_mine.py``.
"""
