"""Copies of integers on the host; what they spare on a device is counted in ``tests/accelerator``."""

from __future__ import annotations

import torch

from similis.objective.context import current_context
from similis.objective.host_copies import HostCopies, known_on_host, on_host, plan_on_host


def test_on_the_host_nothing_is_copied():
    labels = torch.tensor([3, 1, 2])
    assert on_host(labels) is labels
    assert known_on_host(labels, torch.zeros(3)) is labels
    assert on_host(labels) is labels


def test_a_copy_is_made_once_and_stays_that_of_its_tensor():
    hosts, labels = HostCopies(), torch.tensor([3, 1, 2])
    first = hosts.of(labels)
    assert hosts.of(labels) is first
    other = torch.tensor([3, 1, 2])
    assert hosts.add(other, torch.tensor([9, 9, 9])) is other
    assert hosts.of(other).tolist() == [9, 9, 9]
    assert hosts.of(labels).tolist() == [3, 1, 2]


def test_several_are_fetched_together_in_their_shapes():
    hosts, labels, seen, known = HostCopies(), torch.tensor([3, 1, 2]), torch.tensor(7), torch.tensor([5])
    hosts.add(known, torch.tensor([6]))
    hosts.fetch(seen, labels, known)
    assert hosts.of(labels).tolist() == [3, 1, 2]
    assert hosts.of(seen).shape == ()
    assert int(hosts.of(seen)) == 7
    assert hosts.of(known).tolist() == [6]


def test_copies_end_with_the_call_and_are_shared_by_calls_inside():
    x, labels = torch.zeros(3, 2), torch.tensor([3, 1, 2])
    assert current_context().hosts is None
    with plan_on_host(x, labels) as here:
        hosts = current_context().hosts
        assert hosts is not None
        with plan_on_host(x, here):
            assert current_context().hosts is hosts
    assert current_context().hosts is None
