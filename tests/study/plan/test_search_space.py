"""Search spaces: the registry's; what the draws depend on."""

import optuna
import pytest
import torch

from similis.objective.loss import loss
from similis.registry import Range, losses
from similis.study.plan.contestant import Contestant
from similis.study.plan.schema import SearchPlan
from similis.study.plan.search_space import NETWORK_RATE, RATE, RATE_SPREAD, search_budget, search_space
from similis.study.search.trials import SeededByTrial


def distribution(kind: Range) -> optuna.distributions.FloatDistribution:
    return optuna.distributions.FloatDistribution(kind.low, kind.high, log=kind.log, step=kind.step)


@pytest.mark.parametrize("entry", list(losses), ids=lambda entry: entry.name)
def test_every_loss_has_a_space_of_its_own_options(entry):
    space = search_space(Contestant(loss=entry.name), SearchPlan())
    assert set(space) - {RATE, NETWORK_RATE} <= set(entry.options)
    assert space[NETWORK_RATE] == Range(1e-5, 1e-3, log=True), "the same for all"
    assert (RATE in space) == bool(entry.learns)
    for kind in space.values():
        distribution(kind)


@pytest.mark.parametrize("entry", list(losses), ids=lambda entry: entry.name)
def test_what_is_searched_may_stand_beside_every_preset(entry):
    values = {name: value.low for name, value in entry.space.items()}
    vectors = torch.nn.functional.normalize(torch.randn(16, 8, generator=torch.Generator().manual_seed(0)))
    for preset in (None, *entry.presets):
        made = loss(entry.name, class_ids=[0, 1, 2, 3], dim=8, preset=preset, **values)
        assert made(vectors, torch.arange(16) % 4).isfinite()


@pytest.mark.parametrize("entry", list(losses), ids=lambda entry: entry.name)
def test_ranges_hold_the_papers_values(entry):
    for name, preset in entry.presets.items():
        given = {**entry.options, **preset.options}
        for option, kind in entry.space.items():
            if isinstance(given[option], int | float):
                assert kind.low <= given[option] <= kind.high, (name, option, given[option])
        if name == "paper" and preset.lr_multiplier is not None:
            assert 1 / RATE_SPREAD <= preset.lr_multiplier / entry.lr_multiplier <= RATE_SPREAD


def test_options_of_the_plan_are_not_searched():
    assert list(search_space(Contestant(loss="triplet", options={"margin": 0.2}), SearchPlan())) == [NETWORK_RATE]
    assert list(search_space(Contestant(loss="triplet", fixed=True), SearchPlan())) == []


def test_the_budget_is_in_proportion_to_the_settings_that_are_searched():
    four, two = Contestant(loss="proxy_anchor"), Contestant(loss="triplet")
    one, fixed = Contestant(loss="triplet", options={"margin": 0.2}), Contestant(loss="triplet", fixed=True)
    for trials in (1, 3):
        budgets = [search_budget(each, SearchPlan(trials=trials)) for each in (four, two, one, fixed)]
        assert budgets == [1 + 4 * trials, 1 + 2 * trials, 1 + trials, 0]
    assert search_budget(four, SearchPlan(trials=0)) == 0
    assert search_budget(one, SearchPlan(rate_factor=1)) == 1, "the preset alone"


def test_draws_depend_on_search_seed_number_and_name_only():
    def drawn(seed: int, interrupted: bool, whose: str = "a-r0") -> list[tuple[float, float]]:
        sampler = SeededByTrial(whose, SearchPlan(seed=seed, startup=2))
        study = optuna.create_study(direction="maximize", sampler=sampler)
        out = []
        for number in range(6):
            trial = study.ask()
            x = trial.suggest_float("x", 0, 1)
            if interrupted:  # a new process: nothing of the old sampler is left
                study.sampler = SeededByTrial(whose, SearchPlan(seed=seed, startup=2))
                trial = optuna.trial.Trial(study, trial._trial_id)
                assert trial.suggest_float("x", 0, 1) == x
            y = trial.suggest_float("y", 0, 1)
            study.tell(trial, x + y)
            out.append((x, y))
            assert trial.number == number
        return out

    assert drawn(0, False) == drawn(0, True)
    assert drawn(0, False) != drawn(1, False)
    assert len(set(drawn(0, False))) == 6
    points = [drawn(0, False, whose) for whose in ("a-r0", "b-r0", "a-r1")]
    assert len({point for each in points for point in each}) == 18, "no two searches share a point"
