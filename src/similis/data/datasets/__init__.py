"""Known data sets: their original layout, their official class split and its counts.

Comes in: the folder named by SIMILIS_DATA (or root=). Goes out: a Manifest with a ``split`` column.
May import: the data package's readers, manifest, known. May not: splits, transforms, the loader.
To add one: a function with ``@register_dataset`` in ``published.py``, or in a file of its own, and its test.
"""
