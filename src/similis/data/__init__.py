"""Manifests of images, class-disjoint splits, transforms, samplers and the loader.

Comes in: folders, archives, tables, names of known data sets. Goes out: Manifest, Split, Batch.
To add a data set: ``datasets/mine.py``; a sampler: ``samplers/mine.py``; a file format: ``readers/mine.py``.
"""
