"""What the author of a loss or a miner is told about a mistake."""

import pytest
import torch

from similis.formula import Cost, Pairs, Triplets, compare, count, lse, register_loss, register_miner
from similis.objective.loss import loss
from similis.registry import losses, miners
from similis.values import UserError

FACTS = {"geometry": "none", "input": "raw", "cost": Cost("1", "1"), "paper": "-", "network": "-", "weight": "-"}
X, LABELS = torch.eye(4), torch.tensor([0, 0, 1, 1])


@pytest.fixture(autouse=True)
def _own_registries(monkeypatch):
    for registry in (losses, miners):
        registry.fill()
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))


@pytest.mark.parametrize(
    ("facts", "answer"),
    [
        ({"accepts": "triplets"}, "registered with accepts; give it an argument `tuples=None`"),
        ({"memory": True}, "registered with memory; give it an argument `references=None`"),
        ({"family": "pairs"}, "has the family 'pairs'; allowed are pair, triplet, proxy, classification"),
    ],
)
def test_facts_that_contradict_the_function_are_refused(facts, answer):
    with pytest.raises(UserError, match=answer.replace("(", r"\(")):

        @register_loss(**({"family": "pair"} | FACTS | facts))
        def mistaken(x, labels):
            """Is nothing."""


@pytest.mark.parametrize(
    ("formula", "answer"),
    [
        (lambda p: p.mean(p.pos(lambda t: t.s)), "returned Tensor; return lse, total, top or count of it"),
        (lambda p: p.mean(p.pos(lambda t: count(t.s))), "count takes a condition"),
        (lambda p: p.pos(lambda t: lse(t.s)), r"returned the shape \(4,\); a loss is one number"),
    ],
)
def test_a_formula_that_does_not_reduce_is_refused(formula, answer):
    @register_loss(family="pair", **FACTS)
    def mistaken(x, labels):
        """Is nothing."""
        return formula(compare(x, labels, sphere=True))

    with pytest.raises(UserError, match=answer):
        loss("mistaken")(X, LABELS)


@pytest.mark.parametrize("found", [(), Pairs(*[torch.arange(2)] * 4)], ids=["tuple", "pairs"])
def test_a_miner_that_returns_something_else_is_refused(found):
    @register_miner(returns="triplets", paper="-")
    def mistaken(similarity, positive, negative) -> Triplets:
        """Finds something else."""
        return found

    with pytest.raises(UserError, match=rf"the miner returned {type(found).__name__}; triplet takes Triplets"):
        loss("triplet", miner="mistaken")(X, LABELS)
