"""Mining for a share of the anchors. Real processes: tests/multiprocess."""

import torch

from similis.objective.context import Partition
from similis.objective.mining import mine_rows, mines_single_rows, select_own_tuples
from similis.registry import miners
from similis.values import Pairs, Triplets


class Second:
    rank, world = 1, 3


JOINT = Partition(Second(), (2, 3, 1))


def test_tuples_of_own_anchors_are_kept_and_renumbered():
    anchors, columns = torch.tensor([0, 2, 4, 5]), torch.tensor([10, 11, 12, 13])
    found = select_own_tuples(Triplets(anchors, columns, columns + 10), JOINT)
    assert [part.tolist() for part in found] == [[0, 2], [11, 12], [21, 22]]
    pairs = select_own_tuples(Pairs(anchors, columns, anchors.flip(0), columns), JOINT)
    assert [part.tolist() for part in pairs] == [[0, 2], [11, 12], [2, 0], [11, 12]]


def test_who_mines_row_by_row():
    assert not mines_single_rows(lambda similarity, positive, negative: None)
    assert {m.name for m in miners if not mines_single_rows(m.function)} == {"disjoint", "disjoint_pairs"}


def test_draws_belong_to_the_row():
    labels = torch.arange(6) % 2
    same = labels[:, None] == labels
    positive, negative = same & ~torch.eye(6, dtype=torch.bool), ~same
    random = miners.get("random").function
    draws = lambda: torch.Generator().manual_seed(3)  # noqa: E731
    whole = random(torch.zeros(6, 6), positive, negative, generator=draws())
    own = slice(2, 5)

    def mine(similarity, positive, negative, first=0):
        return random(similarity, positive, negative, generator=draws(), first=first)

    part = mine_rows(mine, torch.zeros(3, 6), positive[own], negative[own], JOINT)
    assert [p.tolist() for p in part[1:]] == [p[own].tolist() for p in whole[1:]]
    assert part.anchors.tolist() == [0, 1, 2]
