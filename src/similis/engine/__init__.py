"""The engine room: the only door to many processes.

Comes in: a function and items. Goes out: its results, in order.
May import: registry, values. May not: any other room.
To add an engine: a file with a function ``map(function, items, *, workers)`` that keeps the order.
"""
