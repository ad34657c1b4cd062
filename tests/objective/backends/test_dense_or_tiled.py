"""When a comparison is in tiles."""

import torch

from similis.objective.backends.dense_or_tiled import DENSE_LIMIT, TILE_SIZE, choose_tiling
from similis.objective.backends.tiled.backend import Tiled
from similis.objective.comparison.compare import compare
from similis.objective.context import Tiling, dense, tiles


def test_the_rule():
    side = int(DENSE_LIMIT**0.5)
    assert choose_tiling(side, side) is None
    large = choose_tiling(side + 1, side)
    assert large is not None
    assert large.rows * large.columns <= TILE_SIZE
    assert choose_tiling(256, 1_000_000) is not None
    assert choose_tiling(side // 2, side // 2, depth=5) is None
    assert choose_tiling(side // 2, side // 2, depth=65) is not None
    assert choose_tiling(3, 2, depth=1) is None


def test_depth_makes_tiles_smaller():
    for depth in (2, 7, 1000):
        for tiling in (Tiling(512, 512), Tiling(256, 1024)):
            small = tiling.divide(depth)
            assert small.rows * small.columns * depth <= 1.5 * tiling.rows * tiling.columns
    assert Tiling(3, 4).divide(1) == Tiling(3, 4)
    assert Tiling(3, 4).divide(10**6) == Tiling(1, 1)


def test_what_is_asked_for_holds_inside_and_ends_with_it():
    with tiles(3, 4):
        assert choose_tiling(2, 2) == Tiling(3, 4)
        with dense():
            assert choose_tiling(10**6, 10**6) is None
        assert choose_tiling(2, 2) == Tiling(3, 4)
    assert choose_tiling(2, 2) is None


def test_the_rule_decides_which_comparison_is_built():
    x, labels = torch.randn(3000, 2), torch.zeros(3000, dtype=torch.int64)
    assert isinstance(compare(x, labels, sphere=True).backend, Tiled)
    assert not isinstance(compare(x[:500], labels[:500], sphere=True).backend, Tiled)


def test_a_compiled_graph_is_dense():
    def rows(x):
        p = compare(x, torch.zeros(len(x), dtype=torch.int64), sphere=True)
        return torch.tensor(float(isinstance(p.backend, Tiled)))

    with tiles(3, 4):
        assert torch.compile(rows, fullgraph=True, backend="eager")(torch.randn(5, 3)).item() == 0
    torch._dynamo.reset()
