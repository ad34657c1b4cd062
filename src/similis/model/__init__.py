"""The model object: what it encodes, finds, answers and learns, and how it is saved and described.

See :class:`similis.model.model.Model`.
"""
