"""Known data sets, one file each: their original layout, their official class split and its counts.

Comes in: the folder named by SIMILIS_DATA (or root=). Goes out: a Manifest with a ``split`` column.
May import: the data room's readers, manifest, known. May not: splits, transforms, the loader.
To add one: write ``mine.py`` here with ``@register_dataset`` and ``tests/data/datasets/test_mine.py``.
"""
