"""Equal terms: a table cannot be made from results that differ in a held setting."""

import pytest

from similis.run.spec import parse_spec, replace_values, spec_fields
from similis.study.plan.equal_terms import ALLOWED, UnequalTermsError, equal_terms, held_field, held_terms
from similis.study.statistics.fair_table import fair_table
from similis.values import UserError
from tests.study.small import record

SPEC = parse_spec({"data": {"source": "synthetic"}}).model_dump(mode="json")
FACTS = {"data": "d", "split": "s", "weights": "w", "preprocessing": None, "numerics": 1}
UNFAIR = {
    "model.backbone": "googlenet", "model.pooling": "gem", "training.policy": "resize-crop", "model.dim": 64,
    "model.freeze_batch_norm": False, "training.epochs": 11, "training.head_multiplier": 10.0,
    "data.split_seed": 1, "training.batch_size": 50, "objective.memory": 64, "training.average_decay": 0.9,
}  # fmt: skip


@pytest.mark.parametrize("field", UNFAIR)
def test_results_under_unequal_terms_are_refused_by_the_field(field):
    fair = held_terms(SPEC, FACTS)
    unfair = held_terms(replace_values(SPEC, {field: UNFAIR[field]}), FACTS)
    with pytest.raises(UnequalTermsError, match=f"^{field} differs: a") as refused:
        fair_table([record("a", held=fair), record("b", held=unfair)])
    assert refused.value.field == field


@pytest.mark.parametrize("fact", FACTS)
def test_facts_are_held_too(fact):
    first, second = held_terms(SPEC, FACTS), held_terms(SPEC, {**FACTS, fact: "other"})
    with pytest.raises(UnequalTermsError, match=f"facts.{fact} differs"):
        equal_terms([("a", first), ("b", second)])


def test_the_budget_of_tuning_is_held():
    first, second = (held_terms(SPEC, FACTS, {"tuning": {"search": {"trials": n}}}) for n in (10, 20))
    with pytest.raises(UnequalTermsError, match=r"tuning.search.trials differs: a has 10, b has 20"):
        equal_terms([("a", first), ("b", second)])


def test_what_may_differ_may_differ():
    changes = {
        "objective.loss": "triplet", "objective.preset": "paper", "objective.options": {"margin": 0.3},
        "objective.miner": "semi_hard", "training.loss_multiplier": 3.0, "data.fold": 2, "seed": 4,
        "data.validation_seed": None,
    }  # fmt: skip
    assert set(changes) == ALLOWED
    assert held_terms(replace_values(SPEC, changes), FACTS) == held_terms(SPEC, FACTS)


def test_weights_drawn_by_the_seed_are_not_compared():
    drawn = replace_values(SPEC, {"model.weights": None})
    assert held_terms(drawn, FACTS) == held_terms(drawn, {**FACTS, "weights": "of another seed"})


def test_every_setting_of_a_run_is_either_held_or_allowed():
    names = {name for name in spec_fields() if "." in name} | {"seed"}
    assert names >= ALLOWED
    assert {held_field(name) for name in names - ALLOWED} == names - ALLOWED
    assert held_field("seed") is None


def test_repetitions_that_somebody_has_not_finished_are_left_out():
    done = [(name, each, run) for name in "ab" for each in range(3) for run in range(2)]
    missing = [("b", 1, 1), ("a", 2, 1), ("b", 2, 1)]  # the last run of the last repetition, by nobody
    table = fair_table([record(*each[:2]) | {"run": each[2]} for each in done if each not in missing])
    assert (table.repetitions, table.runs.shape, len(table.records["a"])) == ((0,), (2, 3, 1, 2), 2)
    with pytest.raises(UserError, match="no repetition is finished by every contestant"):
        fair_table([record("a", 0), record("b", 1)])


def test_folds_are_averaged_and_repetitions_are_not():
    rows = [record(n, s, hits=h) | {"fold": f} for n, s, f, h in [
        ("a", 0, 0, [0, 6]), ("a", 0, 1, [6, 6]), ("a", 1, 0, [3, 3]), ("a", 1, 1, [3, 3]),
    ]]  # fmt: skip
    table = fair_table(rows)
    assert table.scores.values.tolist() == [[[0.5, 0.5], [1.0, 0.5]]]
    assert table.scores.means.tolist() == [0.625]


def test_other_test_classes_make_another_table():
    other = record("b")
    other["per_class"] = {"labels": [0, 1, 3], "queries": [6, 6, 6], "hits": [1, 2, 3]}
    with pytest.raises(UnequalTermsError, match="test labels differs"):
        fair_table([record("a"), other])
