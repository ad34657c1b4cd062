"""The plan: what it takes, and every unfairness that it refuses by name."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from similis.registry import Range
from similis.run.cost import Measured
from similis.study.plan import cost as cost_module
from similis.study.plan.contestant import Contestant
from similis.study.plan.cost import plan_cost
from similis.study.plan.jobs import compared_values, final_jobs, final_spec, first_settings, trial_spec
from similis.study.plan.plan_file import parse_plan, plan_text, read_plan
from similis.study.plan.schema import SearchPlan
from similis.study.plan.search_space import search_space
from similis.values import UserError
from tests.study.small import plan, values


def unfair(**extra):
    return {"contestants": ["triplet", {"loss": "margin", "name": "mine", **extra}]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # what the thesis found unequal in published comparisons
        (unfair(model={"backbone": "googlenet"}), "contestant mine sets model.backbone, which is held equal"),
        (unfair(dim=512), "contestant mine sets model.dim, which is held equal"),
        (unfair(data={"split_seed": 3}), "contestant mine sets data.split_seed, which is held equal"),
        (unfair(objective={"memory": 1000}), "contestant mine sets objective.memory, which is held equal"),
        ({"contestants": [{"loss": "triplet", "preset": "papr"}]}, "did you mean 'paper'"),
        ({"contestants": [{"loss": "triplet", "opions": {}}]}, "options"),
        ({"sampler": "balancd"}, "sampler is 'balancd'"),
        ({"contestants": [{"loss": "triplet", "lr": 0.1}]}, "lr, which is searched in one range for all"),
        ({"sampler": "own", "arenas": [{"name": "x", "training": {"sampler": "random"}}]}, "sampler is own: drop one"),
        ({"arenas": [{"name": "x", "data": {"folds": 3}}]}, "an arena cannot change data.folds"),
        ({"arenas": [{"name": "x", "contestants": ["tripet"]}]}, "unknown contestant"),
        ({"arenas": [{"name": "x"}, {"name": "x"}]}, "two arenas have one name"),
        ({"arenas": [{"name": "dim/8"}]}, "arenas.0.name"),
        ({"arenas": []}, "arenas"),
        ({"lengths": {"a_b": {}}}, "lengths.a_b"),
        ({"contestants": [{"loss": "triplet", "offline_mining": {"kind": "hard", "topk": 3}}]}, "offline_mining.top_k"),
        ({"arenas": [{"name": "x", "lengths": ["convergense"]}]}, "unknown length"),
        ({"search": {"trails": 3}}, "search.trials"),
        ({"terms__training__loss_multiplier": 100}, "loss_multiplier is searched"),
        ({"terms__training__sampler": "random"}, "name it once, as sampler: of the plan"),
    ],
)
def test_mistakes_are_answered(changes, message):
    with pytest.raises(UserError, match=message):
        plan(**changes)


def test_a_plan_survives_its_file(tmp_path):
    made = plan(arenas=[{"name": "a", "model": {"dim": 4}}, {"name": "b", "contestants": ["contrastive"]}])
    (tmp_path / "plan.yaml").write_text(plan_text(made))
    assert read_plan(tmp_path / "plan.yaml") == made


def test_jobs_and_their_specifications():
    made = plan(
        arenas=[{"name": "a", "model": {"dim": 4}}, {"name": "b", "contestants": ["contrastive"]}],
        lengths={"equal samples": {}, "convergence": {"epochs": 9, "patience": 2}},
    )
    jobs = list(final_jobs(made))
    assert len(jobs) == 2 * (2 + 1) * 2
    lengths = made.model_dump()["lengths"]
    short = plan(arenas=[{"name": "a", "lengths": ["equal samples"]}, {"name": "b"}], lengths=lengths)
    assert len(list(final_jobs(short))) == 2 * (1 + 2) * 2
    assert len({job.name for job in jobs}) == len(jobs)
    job = next(j for j in jobs if (j.arena, j.length, j.repetition) == ("a", "convergence", 1))
    spec = final_spec(made, job, {"loss_multiplier": 7.0, "margin_cos": 0.3})
    assert (spec.model.dim, spec.training.epochs, spec.training.patience) == (4, 9, 2)
    assert (spec.training.loss_multiplier, spec.objective.options) == (7.0, {"margin_cos": 0.3})
    assert spec.evaluation.test
    trial = trial_spec(made, made.contestants[0], {}, 0)
    assert not trial.evaluation.test, "the search never opens the test split"
    assert trial.model.dim == 4


def test_cross_validation_runs_every_fold():
    jobs = list(final_jobs(plan(terms__data__protocol="cross-validation", terms__data__folds=3)))
    assert sorted({job.fold for job in jobs}) == [0, 1, 2]
    assert len(jobs) == 2 * 2 * 3


def test_cost_is_known_beforehand():
    cost = plan_cost(plan())
    assert (cost.trials, cost.finals, cost.openings) == (2 * (5 + 3), 4, 4)
    shared = plan_cost(plan(search={"trials": 1, "epochs": 2, "startup": 1, "shared": True}))
    assert (shared.trials, shared.finals) == (5 + 3, 4)
    fixed = plan_cost(plan(contestants=["triplet", {"loss": "margin", "fixed": True}]))
    assert (fixed.trials, fixed.finals) == (6, 4)
    assert cost.seconds > 0


def test_the_refit_and_the_mining_are_in_the_cost(monkeypatch):
    """8 training classes of 6 images, 2 of them validate; a second for an image that trains, 100 for one embedded."""
    monkeypatch.setattr(cost_module, "measure_step", lambda *_: Measured(1.0, 100.0))
    once = {"repetitions": 1, "search": {"trials": 1, "epochs": 2}}
    alone = plan_cost(plan(contestants=["contrastive"], **once)).seconds
    assert alone == (3 + 1) * (2 * (36 + 1200)) + 100 * 48
    once["terms__training__refit"] = True
    assert plan_cost(plan(contestants=["contrastive"], **once)).seconds == alone + 2 * 48
    mined = {"loss": "contrastive", "offline_mining": "hard"}
    assert plan_cost(plan(contestants=[mined], **once)).seconds == alone + 2 * 48 + 100 * 2 * (4 * 36 + 48)


def test_selection_on_test_counts_as_openings():
    assert plan_cost(plan(terms__data__protocol="default")).openings == 16 + 4


def test_an_arena_changes_data_and_training_for_all_of_its_contestants():
    arenas = [{"name": "a"}, {"name": "b", "data": {"wrong_labels": 0.3}, "training": {"sampler": "random"}}]
    made = plan(arenas=arenas)
    specs = {job.arena: final_spec(made, job, {}) for job in final_jobs(made)}
    assert (specs["a"].data.wrong_labels, specs["a"].training.sampler) == (0.0, "balanced")
    assert (specs["b"].data.wrong_labels, specs["b"].training.sampler) == (0.3, "random")


def test_a_search_of_rates_begins_where_the_contestant_says():
    own, preset = Contestant(loss="proxy_nca_pp", loss_multiplier=50.0), Contestant(loss="proxy_nca_pp")
    assert search_space(preset, SearchPlan())["loss_multiplier"] == Range(10.0, 1000.0, log=True)
    assert search_space(own, SearchPlan())["loss_multiplier"] == Range(5.0, 500.0, log=True)
    assert first_settings(own, {"loss_multiplier": 0}, 1e-4)["loss_multiplier"] == 50.0
    made = plan(contestants=[own.model_dump()])
    assert trial_spec(made, made.contestants[0], {}, 0).training.loss_multiplier == 50.0
    assert preset.first_multiplier == 100.0


def draws(made):
    """Seed and validation seed of the final runs, by contestant."""
    found = {}
    for job in final_jobs(made):
        spec = final_spec(made, job, {})
        found.setdefault(job.contestant, []).append((spec.seed, spec.data.validation_seed))
    return found


def test_a_repetition_redraws_all_that_chance_decides_and_its_contestants_share_it():
    made = plan(contestants=["proxy_anchor", "whitening", "contrastive"], repetitions=3)
    one, *others = draws(made).values()
    assert others == [one, one]
    assert [len(set(each)) for each in zip(*one, strict=True)] == [3, 3]
    first = trial_spec(made, made.contestants[2], {}, 0, repetition=1)
    assert (first.seed, first.data.validation_seed) == one[1]
    for other in (plan(name="another", repetitions=3), plan(search={"seed": 1}, repetitions=3)):
        assert set(draws(other)["contrastive"]).isdisjoint(one)


def test_a_trial_is_as_long_as_a_final_run_unless_the_plan_says_otherwise():
    for given, epochs in ((None, 2), (5, 5)):
        made = plan(search={"epochs": given})
        assert trial_spec(made, made.contestants[0], {}, 0).training.epochs == epochs


def test_one_search_for_all_keeps_the_validation_classes():
    made = plan(repetitions=3, search={"shared": True})
    specs = [final_spec(made, job, {}) for job in final_jobs(made)]
    assert {spec.data.validation_seed for spec in specs} == {None}
    assert len({spec.seed for spec in specs}) == 3


def test_more_runs_of_a_repetition_differ_in_their_seed_alone():
    made = plan(runs_per_repetition=2, repetitions=1, contestants=["triplet"])
    one, other = (final_spec(made, job, {"margin": 0.3}) for job in final_jobs(made))
    assert one.seed != other.seed
    assert one.model_copy(update={"seed": 0}) == other.model_copy(update={"seed": 0})
    assert one.seed == trial_spec(made, made.contestants[0], {}, 0).seed


def test_a_plan_names_its_batches():
    unnamed = values()
    del unnamed["sampler"]
    with pytest.raises(UserError, match="sampler"):
        parse_plan(unnamed)


@pytest.mark.parametrize(
    ("sampler", "wanted"),
    [
        ("own", {"softmax": "random", "contrastive": "balanced"}),
        ("random", {"softmax": "random", "contrastive": "random"}),
        ("crossed", {"softmax+balanced": "balanced", "softmax+random": "random",
                     "contrastive+balanced": "balanced", "contrastive+random": "random"}),
    ],
)  # fmt: skip
def test_samplers_are_explicit(sampler, wanted):
    made = plan(sampler=sampler, contestants=["softmax", "contrastive", "pca"])
    specs = {job.contestant: final_spec(made, job, {}) for job in final_jobs(made)}
    assert specs["pca"].model.head == "pca", "once, because it has no batches"
    assert {name: spec.training.sampler for name, spec in specs.items() if name != "pca"} == wanted
    assert parse_plan(yaml.safe_load(plan_text(made))) == made, "crossed once only"
    held = {compared_values(made, job, specs[job.contestant])["training"]["sampler"] for job in final_jobs(made)}
    assert held == {sampler}


def test_a_plan_for_vectors_has_a_cost(tmp_path):
    place = tmp_path / "v.parquet"
    rows = 48
    vectors = [[float(row % 8), 1.0, float(row)] for row in range(rows)]
    pq.write_table(pa.table({"vector": vectors, "label": [row % 8 for row in range(rows)]}), place)
    model = {"backbone": "identity", "weights": None, "dim": 2, "options": {"features": 3}}
    terms = {"data": {"source": str(place)}, "model": model, "training": {"epochs": 2, "batch_size": 10}}
    assert plan_cost(plan(terms=terms)).seconds > 0
