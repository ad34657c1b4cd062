"""The engine: the only package that starts processes or communicates with other ranks.

Input: a function and items, or a function for ranks that share a batch. Output: its results, in order.
Modules: ``local`` and ``ray`` (items on many processes), ``elastic``, ``ray_train`` and ``process_group`` (ranks of
this machine, of a Ray cluster, of torchrun), ``collectives`` (what ranks exchange).
"""
