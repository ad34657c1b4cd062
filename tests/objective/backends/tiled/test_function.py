"""The one Function of tiles: its tensors are saved tensors, freed after backward and recomputed on demand."""

import gc
import weakref

import torch

from similis.objective.backends.tiled.backend import take_rows
from similis.objective.backends.tiled.reader import read_in_tiles


def test_nothing_is_held_after_the_backward_pass():
    x = torch.randn(6, 3, requires_grad=True)
    reader = read_in_tiles(x, sphere=True)
    kept = weakref.ref(reader.kept)
    value = take_rows(reader, torch.arange(3)).sum() + take_rows(reader, torch.arange(2)).sum()
    del reader
    gc.collect()
    assert kept() is not None
    value.backward()
    assert kept() is None


def test_a_graph_that_is_dropped_frees_its_tensors_at_once():
    x = torch.randn(6, 3, requires_grad=True)
    gc.disable()
    try:
        reader = read_in_tiles(x, sphere=True)
        kept = weakref.ref(reader.kept)
        value = take_rows(reader, torch.arange(3)).sum() + take_rows(reader, torch.arange(2)).sum()
        del reader, value
        assert kept() is None
    finally:
        gc.enable()
