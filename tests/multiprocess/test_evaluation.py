"""An evaluation whose rows are shards of several ranks equals that of all rows in one process."""

from __future__ import annotations

import pytest
import torch

import similis

COUNTS = {2: (22, 8), 4: (3, 17, 0, 10)}


def rows():
    chance = torch.Generator().manual_seed(0)
    labels = torch.arange(30) % 5
    return torch.eye(8)[labels] + 0.5 * torch.randn(30, 8, generator=chance), labels


def options(case: str, part) -> dict:
    """Options of a call, those of a rank where ``part`` takes its rows of a tensor."""
    if case == "groups":
        return {"groups": part(torch.arange(30) // 4)}
    if case == "queries":
        return {"queries": part(torch.arange(30) % 3 == 0), "gallery": part(torch.arange(30) % 3 != 0)}
    return {}


def evaluated(communicator, counts, case):
    x, labels = rows()
    labels = torch.nn.functional.one_hot(labels) if case == "several labels" else labels

    def part(values):
        return values.split(counts)[communicator.rank]

    found = similis.evaluate(part(x), part(labels), distributed=True, **options(case, part))
    return dict(found.means), dict(found.per_query), found.queries, found.labels, found.neighbors


CASES = ["all", "groups", "queries", "several labels"]


def assert_one(answers, case):
    x, labels = rows()
    labels = torch.nn.functional.one_hot(labels) if case == "several labels" else labels
    want = similis.evaluate(x, labels, **options(case, lambda values: values))
    for means, per_query, queries, classes, neighbors in answers:
        assert means == want.means
        assert torch.equal(queries, want.queries)
        assert torch.equal(classes, want.labels)
        assert torch.equal(neighbors.index, want.neighbors.index)
        for name, values in want.per_query.items():
            assert torch.equal(per_query[name], values), name


@pytest.mark.parametrize("case", CASES)
def test_two_ranks(two, case):
    assert_one(two.call(evaluated, COUNTS[2], case), case)


@pytest.mark.parametrize("case", CASES)
def test_four_ranks_one_of_them_empty(four, case):
    assert_one(four.call(evaluated, COUNTS[4], case), case)


def few(communicator):
    x, labels = rows()
    asks = torch.zeros(15, dtype=torch.bool)
    asks[3] = communicator.rank == 0
    mine = slice(15 * communicator.rank, 15 * communicator.rank + 15)
    queries = asks if communicator.rank == 0 else torch.zeros(0, dtype=torch.long)
    return dict(similis.evaluate(x[mine], labels[mine], queries=queries, distributed=True).means)


def test_fewer_queries_than_ranks(two):
    x, labels = rows()
    want = similis.evaluate(x, labels, queries=torch.tensor([3])).means
    assert two.call(few) == [dict(want)] * 2
