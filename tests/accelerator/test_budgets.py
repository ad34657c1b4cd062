"""How often a loss starts the device and how often it makes the host wait: limits for every form in the registry.

A batch of 1,024 in tiles of 512 launches what one of 8,192 launches in tiles of 4,096.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

from similis.objective.context import Context, Tiling, use_context
from similis.objective.losses.supcon import supcon
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.objective.wrappers.nested import Nested
from similis.registry import losses
from tests.accelerator.equality import batch, make
from tests.contracts.test_broken import copy_of
from tests.objective.miners.test_every_miner import USERS
from tests.proof import registered, shaped_forms

ROWS, CLASSES, DIM = 1024, 1250, 16
QUARTERS = Tiling(ROWS // 2, ROWS // 2)
MINING_WAITS = 14  # of a step that mines: what is found decides the shapes of lists


class Budget(NamedTuple):
    """What a step may ask of an accelerator: launches as one matrix, launches in 2 x 2 tiles, waits of the host."""

    dense: int = 200
    tiled: int = 1500
    waits: int = 2


USUAL = Budget()
MORE = {
    "proxy_gml:default": Budget(250, 2200),  # the nearest first, then their sums
    "proxy_gml:few": Budget(250, 2200),
    "multi_similarity:direction": Budget(250, 2000),  # a mined pair is looked at from both ends
    "triplet:direction": Budget(tiled=4000),  # a product and an axis for each positive of an anchor
}


def budget_of(entry, form):
    return MORE.get(f"{entry.name}:{form}", USUAL)


def counts_of(count, device, made, *, tiling="auto", rows=ROWS, host_labels=False):
    x, labels = batch(rows, classes=CLASSES)
    x, labels = x.to(device).requires_grad_(), labels.pin_memory() if host_labels else labels.to(device)
    made = made.to(device)
    with use_context(Context(tiling=tiling)), count() as counts:
        made(x, labels).backward()
    return counts


def sized(entry, form="", **more):
    return make(entry, form, num_classes=CLASSES, **more)


def assert_within(counts, limit, waits):
    assert counts.launches <= limit, f"{counts.launches} launches, more than {limit}: {counts}"
    assert counts.waits <= waits, f"more than {waits} waits: {counts}"


@pytest.mark.parametrize(("entry", "form"), shaped_forms())
def test_one_matrix(device, count, entry, form):
    budget = budget_of(entry, form)
    assert_within(counts_of(count, device, sized(entry, form)), budget.dense, budget.waits)


@pytest.mark.parametrize(("entry", "form"), shaped_forms())
def test_four_tiles(device, count, entry, form):
    budget = budget_of(entry, form)
    assert_within(counts_of(count, device, sized(entry, form), tiling=QUARTERS), budget.tiled, budget.waits)


@pytest.mark.parametrize(("entry", "form"), shaped_forms())
def test_waits_do_not_grow_with_the_number_of_tiles(device, count, entry, form):
    counts = counts_of(count, device, sized(entry, form), tiling=Tiling(24, 24), rows=96)
    assert counts.waits <= budget_of(entry, form).waits, str(counts)


@pytest.mark.parametrize(("entry", "form"), shaped_forms())
def test_labels_of_the_host_are_never_waited_for(device, count, entry, form):
    """But for lists of rows that a form makes of them, which go back to the device."""
    counts = counts_of(count, device, sized(entry, form), host_labels=True)
    assert counts.waits <= (form == "pairs"), str(counts)


def test_exceptions_are_needed(device, count):
    for name in MORE:
        entry, form = losses.get(name.partition(":")[0]), name.partition(":")[2]
        made = [counts_of(count, device, sized(entry, form), tiling=t).launches for t in ("auto", QUARTERS)]
        assert made[0] > USUAL.dense or made[1] > USUAL.tiled, f"{name} keeps the usual budget"


def test_a_planted_wait_is_found_with_its_line(device, count):
    def waits_once_more(x, labels, **options):
        value = supcon(x, labels, **options)
        return value * (1.0 if value.item() > -1 else 2.0)  # planted

    entry = copy_of(supcon, waits_once_more)
    with registered(entry):
        counts = counts_of(count, device, sized(entry))
    assert any("test_budgets.py" in line and "(value, item)" in line for line in counts.lines), str(counts)
    with pytest.raises(AssertionError, match=r"test_budgets.py:\d+ \(value, item\)"):
        assert_within(counts, 200, 1)


@pytest.mark.parametrize(("user", "name"), USERS)
def test_a_miner_waits_for_its_lists(device, count, user, name):
    counts = counts_of(count, device, sized(losses.get(user), miner=name), rows=128)
    assert counts.waits <= MINING_WAITS, str(counts)


@pytest.mark.parametrize("tiling", ["auto", Tiling(24, 24)])
def test_wrappers_wait_no_more(device, count, tiling):
    sizes = Nested(sized(losses.get("supcon")), (4, 8, DIM))
    counts = counts_of(count, device, sizes, tiling=tiling, rows=96)
    assert counts.waits <= 2, str(counts)


@pytest.mark.parametrize("tiling", ["auto", Tiling(24, 24)])
@pytest.mark.parametrize("name", ["supcon", "triplet", "proxy_anchor"])
def test_a_memory_waits_twice_at_most(device, count, name, tiling):
    x, labels = (part.to(device) for part in batch(96, classes=CLASSES))
    made = CrossBatchMemory(sized(losses.get(name)), size=128, dim=DIM).to(device)
    ids = torch.arange(96, device=device)
    with use_context(Context(tiling=tiling)):
        for _ in range(3):
            with count() as counts:
                made(x.detach().requires_grad_(), labels, image_ids=ids).backward()
    assert counts.waits <= 2, str(counts)
