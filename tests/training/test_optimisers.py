"""Parameter groups: every parameter of model and loss in exactly one, with its rate."""

import pytest
import torch

from similis.objective.loss import loss
from similis.registry import losses
from similis.training.optimisers import Rates, build_optimiser, check_groups, parameter_groups, set_rates
from similis.values import UserError
from tests.training.small import Perceptron


@pytest.mark.parametrize("name", [entry.name for entry in losses])
def test_every_parameter_is_in_exactly_one_group(name):
    model, criterion = Perceptron(), loss(name, num_classes=4, dim=5)
    groups = parameter_groups(
        model, model.head.parameters(), criterion, Rates(lr=0.1, head_multiplier=2, loss_multiplier=50)
    )
    rates = {id(p): g["lr"] for g in groups for p in g["params"]}
    for name_, p in model.named_parameters():
        assert rates.pop(id(p)) == pytest.approx(0.2 if name_.startswith("head") else 0.1)
    for p in criterion.parameters():
        assert rates.pop(id(p)) == pytest.approx(5.0)
    assert not rates


def test_a_forgotten_or_doubled_parameter_is_refused():
    model, criterion = Perceptron(), loss("proxy_anchor", num_classes=4, dim=5)
    with pytest.raises(UserError, match=r"learned\.proxies"):
        check_groups(model, criterion, [{"params": list(model.parameters())}])
    everything = [*model.parameters(), *criterion.parameters()]
    with pytest.raises(UserError, match="in two groups: 1"):
        check_groups(model, criterion, [{"params": [*everything, everything[0]]}])


@pytest.mark.parametrize(
    ("name", "kind"), [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)]
)
def test_optimisers_by_name(name, kind):
    model, criterion = Perceptron(), loss("triplet")
    rates = Rates(name=name, lr=0.5)
    optimiser = build_optimiser(parameter_groups(model, model.head.parameters(), criterion, rates), rates)
    assert isinstance(optimiser, kind)
    set_rates(optimiser, 0.1)
    assert [g["lr"] for g in optimiser.param_groups] == pytest.approx([0.05, 0.05])


def test_an_unknown_optimiser_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="did you mean 'adamw'"):
        build_optimiser([], Rates(name="adamww"))
