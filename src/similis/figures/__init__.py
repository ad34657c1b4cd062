"""Figures of what the library does; the only package that imports matplotlib.

Input: names of losses, values of the packages below. Output: matplotlib figures, image files.
To add a figure: one file with a function that returns a figure made by ``canvas.new_figure``.
"""
