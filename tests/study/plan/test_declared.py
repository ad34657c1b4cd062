"""Extras of a contestant: declared in the plan, part of its title, shown in the report; undeclared they raise."""

import json

import pytest

from similis.study.plan.contestant import Contestant
from similis.study.plan.equal_terms import UnequalTermsError, declared_differences, held_terms
from similis.study.plan.jobs import compared_values, final_jobs, final_spec, trial_spec
from similis.study.plan.plan_file import parse_plan, plan_text, read_plan
from similis.study.report.page import write_report
from similis.study.tournament import add_contestants, run_tournament
from similis.values import UserError
from tests.study.small import plan, values

MINED = {"loss": "contrastive", "offline_mining": {"kind": "semi_hard", "every_epochs": 2, "top_k": 4}}
FACTS = {"data": "d", "split": "s", "weights": "w", "preprocessing": None, "numerics": 1}


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ({"loss": "lifted", "offline_mining": "neighbours"}, "lifted+mined_neighbours"),
        ({"loss": "triplet", "memory": 512, "memory_start": 9}, "triplet+memory512"),
        ({"loss": "normface", "nested_sizes": [2, 4]}, "normface+nested2.4"),
        ({"loss": "supcon", "language": "words.safetensors", "name": "mine"}, "mine+language"),
        ({"loss": "normface", "head": "whitening+trained"}, "normface+from_whitening"),
        ("lda", "lda"),
        ({"loss": "proxy_repulsion", "options": {"form": "hybrid"}, "offline_mining": {}, "memory": 8},
         "proxy_repulsion+mined_hard+memory8"),
    ],
)  # fmt: skip
def test_extras_stand_in_the_title_and_reach_the_run(given, title, tmp_path):
    made = plan(contestants=["triplet", given])
    assert [each.title for each in made.contestants] == ["triplet", title]
    (tmp_path / "plan.yaml").write_text(plan_text(made))
    assert read_plan(tmp_path / "plan.yaml") == made
    given = {"head": given} if isinstance(given, str) else given
    job = next(job for job in final_jobs(made) if job.contestant == title)
    plain = next(job for job in final_jobs(made) if job.contestant == "triplet")
    for spec in (final_spec(made, job, {}), trial_spec(made, made.contestant(title), {}, 0)):
        asked = given.get("offline_mining")
        assert (spec.training.sampler == "mined") == (asked is not None)
        assert spec.training.mining.kind == (asked if isinstance(asked, str) else "hard")
        o = spec.objective
        assert (o.memory, o.memory_start) == (given.get("memory", 0), given.get("memory_start", 0))
        assert spec.model.head == given.get("head", "trained")
        assert (list(o.nested_sizes), o.language) == (given.get("nested_sizes", []), given.get("language"))
    # Compared under the terms of the others, and its differences are known by name.
    held = [held_terms(compared_values(made, each, final_spec(made, each, {})), FACTS) for each in (job, plain)]
    assert held[0] == held[1]
    told = declared_differences({"spec": final_spec(made, job, {}).model_dump(mode="json"), "held": held[0]})
    words = {"offline_mining": "training.sampler", "memory": "objective.memory", "head": "model.head",
             "nested_sizes": "objective.nested_sizes"}  # fmt: skip
    assert {field for key, field in words.items() if given.get(key) is not None} <= told.keys()


@pytest.mark.parametrize(("sampler", "shown"), [("balanced", "balanced"), ("own", "own")])
def test_what_is_not_declared_is_not_put_back(sampler, shown):
    made = plan(contestants=["triplet", MINED], sampler=sampler)
    job = next(job for job in final_jobs(made) if job.contestant == "triplet")
    spec = final_spec(made, job, {})
    other = spec.model_copy(update={"training": spec.training.model_copy(update={"sampler": "mined"})})
    assert held_terms(compared_values(made, job, other), FACTS)["training.sampler"] == "mined"
    assert held_terms(compared_values(made, job, spec), FACTS)["training.sampler"] == shown


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"sampler": "random"}, "sets training.sampler, which is held equal"),
        ({"sampler": "mined"}, "it should be 'balanced' or 'random'"),
        ({"training": {"mining": {}}}, "sets training.mining, which is held equal"),
        ({"offline_mining": "hardest"}, "'hard', 'semi_hard' or 'neighbours'"),
        ({"memory": -1}, "greater than or equal to 0"),
        ({"head": "pca", "fixed": True}, "fitted without a loss; write the bare word pca"),
    ],
)
def test_other_ways_are_refused(extra, message):
    with pytest.raises(UserError, match=message):
        plan(contestants=[{"loss": "triplet", **extra}])


def test_a_title_cannot_hide_an_extra():
    assert Contestant.model_validate({**MINED, "name": "plain"}).title == "plain+mined_semi_hard"
    with pytest.raises(UserError, match=r"given twice: contrastive\+mined_hard"):
        plan(contestants=[{"loss": "contrastive", "offline_mining": {"top_k": k}} for k in (1, 2)])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A real tournament of a loss as it is, with offline mining, and with a memory and nested sizes."""
    extras = {"loss": "contrastive", "memory": 20, "nested_sizes": [4, 8]}
    made = plan(contestants=["contrastive", MINED, extras], search={"trials": 1, "epochs": 1})
    return run_tournament(made, tmp_path_factory.mktemp("declared"))


def test_the_table_names_them_and_the_report_tells_what_they_cost(done, tmp_path):
    text = write_report(done, out=tmp_path)[0].read_text()
    for word in (
        "contrastive+mined_semi_hard", "contrastive+memory20+nested4.8", "seconds of offline mining",
        "Declared by the plan", "`training.sampler` = `mined`", "`training.mining.top_k` = `4`",
        "`objective.memory` = `20`",
    ):  # fmt: skip
        assert word in text, word
    costs = {r["contestant"]: r["cost"] for r in done.records.all("final")}
    assert costs["contrastive+mined_semi_hard"]["mining_seconds"] > 0
    assert "mining_seconds" not in costs["contrastive"]
    trial = next(r for r in done.records.all("trial") if "mined" in r["name"])
    assert trial["cost"]["mining_seconds"] > 0
    again = write_report(done, out=tmp_path / "again", times=False)[0].read_text()
    assert "seconds of offline mining" not in again


def test_the_runs_differ_and_only_in_what_was_declared(done):
    told = {r["contestant"]: declared_differences(r) for r in done.records.all("final")}
    assert told["contrastive"] == {}
    assert told["contrastive+mined_semi_hard"] == {
        "training.sampler": "mined", "training.mining.kind": "semi_hard", "training.mining.every_epochs": 2,
        "training.mining.top_k": 4,
    }  # fmt: skip
    assert set(told["contrastive+memory20+nested4.8"]) == {"objective.memory", "objective.nested_sizes"}
    assert len({r["address"] for r in done.records.all("final")}) == 6


def test_results_of_other_batches_are_refused(done, tmp_path):
    other = values(contestants=["triplet"], search={"trials": 1, "epochs": 1}, sampler="random")
    giving = run_tournament(parse_plan(other), tmp_path / "other")
    with pytest.raises(UnequalTermsError, match=r"training\.sampler differs"):
        add_contestants(done.path, [str(giving.path)])
    held = json.loads(next((giving.path / "records").glob("final-*.json")).read_text())["held"]
    assert held["training.sampler"] == "random"
