"""The code of the pages about loops and ranks, as it is printed, on two ranks."""

from __future__ import annotations

import pytest
import torch

from tests.docs.blocks import ROOT, blocks

PAGES = ("README.md", "docs/distributed.md", "docs/devices.md", "docs/tutorials/own-loop.md")


def loops(page: str) -> list[str]:
    """Python blocks of a page that build a loss."""
    found = blocks((ROOT / page).read_text(encoding="utf-8"))
    return [block.text for block in found if block.kind == "python" and "similis.loss(" in block.text]


def run_page(communicator, page: str) -> list[torch.Tensor]:
    """Run the blocks; the gradients that each leaves in a loss that has parameters."""
    torch.manual_seed(communicator.rank)
    left = []
    for text in loops(page):
        names = {"__name__": "page"}
        exec(compile(text, page, "exec"), names)
        criterion = names.get("criterion", names.get("loss"))
        left += [p.grad for p in criterion.parameters() if p.grad is not None] if criterion is not None else []
    return left


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_on_two_ranks(two, page):
    one, other = two.call(run_page, page)
    assert len(one) == len(other)
    for mine, theirs in zip(one, other, strict=True):
        assert torch.equal(mine, theirs), "a loss over all ranks has one gradient"


def test_pages_have_such_blocks():
    assert [page for page in PAGES if loops(page)] == [page for page in PAGES if page != "docs/devices.md"]
