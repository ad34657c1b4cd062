"""Tests of other folders with the emulated device as the default one.

``pytest -p tests.accelerator.default_device tests/objective tests/retrieval``: every tensor that a test or the library
makes without saying where is made on the device. A test that draws from a generator of the host draws there, and the
numbers are moved; the library has to do so itself.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from tests.accelerator import emulator

DRAWS = {torch.randn, torch.rand, torch.randint, torch.randperm, torch.normal}
FILLS = {torch.Tensor.normal_, torch.Tensor.uniform_, torch.Tensor.random_, torch.Tensor.bernoulli_}

# why tests say nothing about a device -> parts of their names
ABOUT_THE_HOST = {
    "how the host computes: another size of tiles, no list of positives, no copies": (
        "test_the_law_holds",
        "test_a_chunk_holds_some_of_the_pairs",
        "test_the_rule_decides_which_comparison_is_built",
        "test_on_the_host_nothing_is_copied",
        "test_memory_follows_the_number_of_tuples",
        "test_calls.py",
    ),
    "a compiled step on a device gives NaN for a label without a class, see test_compile.py": (
        "test_labels.py::test_a_compiled",
        "test_labels.py::test_a_lowered_graph",
    ),
    "samplers take labels and lists of the host, where offline mining leaves them": (
        "test_offline_mining.py::test_batches_are_pairs",
        "test_offline_mining.py::test_nearest_one_is_lifted",
        "test_offline_mining.py::test_every_entry_of_the_list",
        "test_offline_mining.py::test_refusals",
        "test_offline_mining.py::test_without_positives",
    ),
    "the test itself compares with NumPy or mixes its own tensors with results on the host": (
        "test_evaluate.py::test_r_from_one_to_five_thousand",
        "test_nested.py::test_worked_number",
        "test_embed.py::test_order_of_the_data_set",
        "test_embed.py::test_vectors_may_enter_a_graph",
        "retrieval/test_index.py",
        "test_estimate.py::test_queries_do_not_find_themselves",
        "test_grouping.py::test_order_and_earlier_calls",
        "test_grouping.py::test_the_graph_is_that_of_plain_loops",
        "test_grouping.py::test_planted_communities",
        "test_grouping.py::test_few_samples",
        "test_intervals.py::test_draws_come_in_tiles",
        "test_intervals.py::test_several_statistics_share",
        "test_search.py::test_unit_vectors_keep_their_bits",
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is about the host alone."""
    for item in items:
        for reason, names in ABOUT_THE_HOST.items():
            if any(name in item.nodeid for name in names):
                item.add_marker(pytest.mark.skip(reason=reason))


class MovedDraws(TorchFunctionMode):
    """Draws of a test from a generator of the host, on the device."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        source = kwargs.get("generator")
        if source is None or source.device.type != "cpu":
            return function(*args, **kwargs)
        if sys._getframe(1).f_globals["__name__"].startswith("similis."):
            return function(*args, **kwargs)
        if function in DRAWS and kwargs.get("device") is None:
            return function(*args, **{**kwargs, "device": "cpu"}).to(emulator.NAME)
        if function in FILLS and not args[0].is_cpu:
            return args[0].copy_(function(torch.empty_like(args[0], device="cpu"), *args[1:], **kwargs))
        return function(*args, **kwargs)


emulator.load()
torch.set_default_device(emulator.NAME)
moved = MovedDraws()
moved.__enter__()
