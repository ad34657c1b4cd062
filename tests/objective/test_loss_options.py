"""Options of a loss are checked by name and by type before anything is built."""

from typing import Literal

import pytest

from similis.objective.loss_options import check_options, check_settings, fits, hints_of
from similis.registry import losses
from similis.values import UserError


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, float, True), (1.5, int, True), (True, float, False), ("1", float, False), (None, float | None, True),
        (None, float, False), ("mean", Literal["mean", "sum"], True), ("men", Literal["mean", "sum"] | None, False),
        (False, bool, True), (0, bool, False), ("x", str, True), ((1, 2), tuple[int, ...], True),
    ],
)  # fmt: skip
def test_a_value_fits_its_type(value, hint, expected):
    assert fits(value, hint) is expected


@pytest.mark.parametrize("entry", list(losses), ids=lambda entry: entry.name)
def test_every_loss_takes_its_own_defaults_forms_and_presets(entry):
    assert hints_of(entry.function)
    for options in [entry.options, *entry.forms.values(), *(preset.options for preset in entry.presets.values())]:
        assert check_options(entry, options) == dict(options)
    for name, preset in entry.presets.items():
        check_settings(entry.name, {}, preset=name, miner=preset.miner)


def test_a_function_without_types_is_not_checked():
    assert hints_of(lambda x, *, margin=1: x) == {}


def test_options_of_what_is_learned_are_checked_too():
    with pytest.raises(UserError, match="option centers of soft_triple is 'many'; give a whole number"):
        check_settings("soft_triple", {"centers": "many"})
