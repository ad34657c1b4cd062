"""The figures room: pictures of what the library does, and the only door to matplotlib.

Comes in: names of losses, value types of the rooms below. Goes out: matplotlib figures, image files.
May import: objective, registry, values; matplotlib inside functions. May not: training, retrieval, pyplot.
To add a picture: one file with a function that returns a figure made by ``canvas.new_figure``.
"""
