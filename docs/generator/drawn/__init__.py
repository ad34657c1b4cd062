"""The figures of "Metric learning, explained": what losses, miners and margins do, computed by calling them.

Input: nothing; every number comes from a registered loss or miner. Output: matplotlib figures.
To add a figure: a function without arguments, and its name in the table of ``docs/generator/explained.py``.
"""
