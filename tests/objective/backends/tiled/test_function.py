"""The one Function of tiles: its tensors are saved tensors, freed after backward and recomputed on demand."""

import gc
import weakref
from dataclasses import dataclass

import torch

from similis.objective.backends.tiled.backend import take_rows
from similis.objective.backends.tiled.function import restore_tensors, strip_tensors
from similis.objective.backends.tiled.reader import TileReader, read_in_tiles


@dataclass(frozen=True)
class Nested:
    rows: TileReader
    columns: TileReader
    more: list[tuple[str, torch.Tensor]]


def test_tensors_are_taken_out_and_put_back():
    reader = read_in_tiles(torch.randn(4, 2), sphere=True)
    step = Nested(reader, reader, [("a", reader.raw), ("b", torch.ones(3))])
    found: list[torch.Tensor] = []
    bare = strip_tensors(step, found, {})
    assert bare.rows is bare.columns
    assert bare.rows.link is None  # the graph must not hold itself
    assert len(found) == 3  # the raw vectors come twice
    again = restore_tensors(bare, found, {})
    assert again.rows is again.columns
    assert again.rows.raw is reader.raw
    assert again.more[0][1] is reader.raw
    assert torch.equal(again.more[1][1], torch.ones(3))
    assert isinstance(step.rows.raw, torch.Tensor)


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
