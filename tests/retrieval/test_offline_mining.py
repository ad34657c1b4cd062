"""Offline mining against plain loops, and the batches made from it."""

import numpy as np
import pytest
import torch

from similis.data.samplers.mined import draw_positives, mined
from similis.retrieval.offline_mining import Mined, mine_offline
from similis.values import Embedded, UserError


@pytest.fixture
def embedded():
    chance = torch.Generator().manual_seed(0)
    labels = torch.arange(9).repeat_interleave(5)
    labels[-1] = 99  # a class of one
    return Embedded(torch.randn(45, 6, generator=chance), labels, torch.arange(45))


def drawn(embedded, found, **more):
    """Batches of an epoch made from what was mined."""
    given = {"positives": found.positives, "negatives": found.negatives, "batch_size": 40, "seed": 0, "epoch": 0}
    return mined(embedded.labels, **given | more)


@pytest.mark.parametrize("tile", [1, 100, 10**6])
@pytest.mark.parametrize("kind", ["hard", "semi_hard"])
def test_against_plain_loops(embedded, kind, tile):
    found = mine_offline(embedded, 3, kind=kind, generator=torch.Generator().manual_seed(1), tile=tile)
    x = torch.nn.functional.normalize(embedded.vectors, dim=1)
    y = embedded.labels.tolist()
    for i in range(45):
        s = [float(x[i] @ x[j]) for j in range(45)]
        own = [j for j in range(45) if j != i and y[j] == y[i]]
        p = int(found.positives[i])
        if not own:
            assert p == -1
            assert found.negatives[i].tolist() == [-1] * 3
            continue
        assert p in own
        if kind == "hard":
            assert p == min(own, key=lambda j: s[j])
        others = [j for j in range(45) if y[j] != y[i] and (kind == "hard" or s[j] < s[p])]
        nearest = sorted(others, key=lambda j: -s[j])[:3]
        assert [n for n in found.negatives[i].tolist() if n >= 0] == nearest


def test_batches_are_pairs_with_negatives_of_both_ends(embedded):
    found = mine_offline(embedded, 3)
    rows = drawn(embedded, found, batch_size=20)
    assert rows.shape == (2, 20)
    for i, j, n, m in rows.view(-1, 4).tolist():
        assert found.positives[i] == j
        assert n in found.negatives[i].tolist()
        assert m in found.negatives[j].tolist()
        assert embedded.labels[i] == embedded.labels[j] != embedded.labels[n]
    assert torch.equal(rows, drawn(embedded, found, batch_size=20))
    assert not torch.equal(rows, drawn(embedded, found, batch_size=20, epoch=1))


def test_nearest_one_is_lifted_structures_neighbour(embedded):
    found = mine_offline(embedded, 3)
    for i, j, n, m in drawn(embedded, found, nearest=1).view(-1, 4).tolist():
        assert (n, m) == (int(found.negatives[i, 0]), int(found.negatives[j, 0]))


def test_every_entry_of_the_list_is_sampled(embedded):
    found = mine_offline(embedded, 3)
    seen = set()
    for epoch in range(60):
        seen |= {(i, n) for i, _, n, _ in drawn(embedded, found, epoch=epoch).view(-1, 4).tolist()}
    assert {(0, n) for n in found.negatives[0].tolist()} <= seen


def test_refusals(embedded):
    found = mine_offline(embedded, 3)
    with pytest.raises(UserError, match="multiple of 4"):
        drawn(embedded, found, batch_size=10)
    with pytest.raises(UserError, match="no image has both"):
        drawn(embedded, found, positives=-torch.ones_like(found.positives))


def test_drawn_positives_are_all_others_of_the_class_evenly():
    labels = np.array([3, 1, 3, 3, 8, 1, 3])
    numbers = (np.arange(3000) + 0.5) / 3000
    chosen = np.stack([draw_positives(labels, np.full(7, u)) for u in numbers])
    for i, label in enumerate(labels):
        others = [j for j in range(7) if j != i and labels[j] == label]
        found, counts = np.unique(chosen[:, i], return_counts=True)
        assert found.tolist() == (others or [-1])
        assert counts.tolist() == [3000 // max(len(others), 1)] * len(found)
    largest = np.nextafter(1.0, 0.0)
    assert draw_positives(labels, np.full(7, largest)).tolist() == [6, 5, 6, 6, -1, 1, 3]


def test_semi_hard_draws_do_not_depend_on_tiles(embedded):
    found = [
        mine_offline(embedded, 3, kind="semi_hard", generator=torch.Generator().manual_seed(1), tile=tile)
        for tile in (50, 10**6)
    ]
    assert torch.equal(found[0].positives, found[1].positives)


def test_without_positives_pairs_are_drawn_anew_in_every_epoch(embedded):
    found = mine_offline(embedded, 1)
    ends: dict[int, set[int]] = {}
    for epoch in range(20):
        for i, j, n, m in drawn(embedded, found, positives=None, epoch=epoch).view(-1, 4).tolist():
            assert i != j
            assert embedded.labels[i] == embedded.labels[j]
            assert (n, m) == (int(found.negatives[i]), int(found.negatives[j]))
            ends.setdefault(i, set()).add(j)
    assert max(len(each) for each in ends.values()) > 2
    assert 44 not in ends  # the class of one


def test_useful_rows_have_a_positive_and_negatives_on_both_ends():
    table = Mined(torch.tensor([1, 0, 3, 2, -1]), torch.tensor([[2], [3], [0], [-1], [0]]))
    assert table.useful().tolist() == [True, True, False, False, False]
