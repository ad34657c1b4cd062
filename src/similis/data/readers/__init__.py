"""Readers, one file for each layout: what lies on disk becomes a Manifest.

Comes in: a path or URL. Goes out: a Manifest whose paths are relative, so that its fingerprint travels.
May import: the data package's manifest, sources, table. May not: data sets, splits, the loader.
To add one: write ``mine.py`` here with one function and name its ending in ``open_data.py``.
"""
