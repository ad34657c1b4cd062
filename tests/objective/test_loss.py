"""The loss as a module: names, options, presets, class ids, miners, what it refuses."""

from dataclasses import replace

import pytest
import torch

from similis.objective.loss import loss
from similis.objective.losses.triplet import triplet
from similis.objective.references import Block, batch_references
from similis.registry import Preset, losses
from similis.values import Counts, Triplets, UserError
from tests.batches import A_LABELS, A, random_batch
from tests.proof import registered

X, LABELS = random_batch(0)
IDS = torch.tensor([-4, 9, 2**40, 2**53 + 1])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: loss("proxyanchor"), "unknown loss 'proxyanchor'; did you mean 'proxy_anchor'"),
        (lambda: loss("triplet", margn=0.1), "unknown option of triplet 'margn'; did you mean 'margin'"),
        (lambda: loss("triplet", preset="thesiss"), "unknown preset of triplet 'thesiss'; did you mean 'thesis'"),
        (lambda: loss("triplet", miner="no_such_thing"), "unknown miner 'no_such_thing'"),
        (lambda: loss("proxy_anchor"), "pass both, for example num_classes=100, dim=512"),
        (lambda: loss("proxy_anchor", class_ids=[3, 3], dim=2), "repeat 3"),
        (
            lambda: loss("proxy_anchor", class_ids=[3, 4], num_classes=3, dim=2),
            "num_classes is 3 but there are 2 class_ids",
        ),
    ],
)
def test_what_does_not_exist_is_answered_with_what_does(call, words):
    with pytest.raises(UserError, match=words):
        call()


def test_the_module_computes_the_function_with_its_options():
    made = loss("triplet", geometry="euclid2", margin=0.7, reduction="sum")
    assert made.options["margin"] == 0.7
    assert made(X, LABELS).item() == triplet(X, LABELS, geometry="euclid2", margin=0.7, reduction="sum").item()
    assert loss("triplet")(X, LABELS).item() == triplet(X, LABELS).item()


def test_options_come_after_the_preset_and_the_preset_after_the_defaults():
    entry = replace(
        losses.get("proxy_anchor"),
        presets={"mine": Preset({"scale": 7.0, "margin_cos": 0.3}, "here", lr_multiplier=5.0)},
    )
    with registered(entry):
        made = loss("proxy_anchor", preset="mine", margin_cos=0.4, num_classes=4, dim=5)
        plain = loss("proxy_anchor", num_classes=4, dim=5)
    assert made.options == {"scale": 7.0, "margin_cos": 0.4}
    assert made.parameter_groups(0.1)[0]["lr"] == pytest.approx(0.5)
    assert plain.options == {"scale": 32.0, "margin_cos": 0.1}
    assert plain.parameter_groups(0.1)[0]["lr"] == pytest.approx(10.0)


def test_a_loss_without_parameters_has_no_group():
    assert loss("triplet").parameter_groups(0.1) == []


def test_proxies_are_parameters_and_the_seed_decides_them():
    made = loss("proxy_anchor", num_classes=4, dim=5)
    assert {name: tuple(p.shape) for name, p in made.named_parameters()} == {"learned.proxies": (4, 5)}
    assert torch.equal(made.learned["proxies"], loss("proxy_anchor", num_classes=4, dim=5).learned["proxies"])
    assert not torch.equal(
        made.learned["proxies"], loss("proxy_anchor", num_classes=4, dim=5, seed=1).learned["proxies"]
    )


@pytest.mark.parametrize("strange", [-5, 0, 10, 2**53, 2**53 + 2])
def test_an_id_outside_class_ids_is_refused(strange):
    labels = IDS[LABELS]
    labels[3] = strange
    with pytest.raises(UserError, match=rf"\[{strange}\] are not among the 4 class_ids"):
        loss("proxy_anchor", class_ids=IDS.tolist(), dim=5)(X.float(), labels)


@pytest.mark.parametrize(
    ("name", "call", "words"),
    [
        ("triplet", {"embeddings": X[0]}, r"shape \(5,\); pass one row per sample"),
        ("proxy_anchor", {"tuples": Triplets(LABELS, LABELS, LABELS)}, "takes no mined tuples"),
        ("no_relation", {"labels": torch.eye(11)}, "no meaning for a relation matrix"),
        ("no_memory", {"references": batch_references(X, LABELS, Block(X, LABELS))}, "cannot use a memory"),
    ],
)
def test_what_a_loss_cannot_take_is_refused(name, call, words):
    copies = {"no_relation": {"relation": "none"}, "no_memory": {"memory": False}}
    base = "triplet" if name in copies else name
    with registered(replace(losses.get(base), **copies.get(name, {}))):
        made = loss(base, num_classes=4, dim=5)
    with pytest.raises(UserError, match=words):
        made(**{"embeddings": X, "labels": LABELS, **call})


def test_a_miner_narrows_the_loss_and_tells_what_it_found():
    made = loss("triplet", miner="all_triplets")
    assert made.mined is None
    assert made(X, LABELS).item() == pytest.approx(triplet(X, LABELS).item(), abs=1e-12)
    sizes = [int((c == LABELS).sum()) for c in range(4)]
    assert made.mined == Counts(sum(n * (n - 1) * (11 - n) for n in sizes), sum(n for n in sizes if n > 1))


ALONE, TOGETHER = torch.arange(6), torch.zeros(6, dtype=torch.int64)
OWN_ONLY = {"num_classes": 3, "dim": 2, "subproxies": 2, "neighbors": 2, "regularisation": 0.0}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize(
    ("name", "options", "labels"),
    [
        ("nt_xent", {}, TOGETHER),
        ("lifted", {}, TOGETHER),
        ("softmax", {"num_classes": 1, "dim": 2}, TOGETHER),
        ("recall_at_k", {}, ALONE),
        ("smooth_ap", {}, ALONE),
        ("proxy_gml", OWN_ONLY, A_LABELS),
    ],
)
def test_where_nothing_can_be_compared_the_value_is_an_attached_zero(name, options, labels):
    """Nor is there a NaN on the way back that a mask happens to catch: a streamed back-end has no such mask."""
    x = A.clone().requires_grad_()
    with torch.autograd.detect_anomaly():
        value = loss(name, **options).double()(x, labels)
        value.backward()
    assert value.item() == 0
    assert torch.equal(x.grad, torch.zeros_like(A))


def test_tuples_given_come_before_the_miner():
    one = Triplets(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
    made = loss("triplet", miner="all_triplets", margin=1.0)
    assert made(X, LABELS, tuples=one).item() == triplet(X, LABELS, tuples=one, margin=1.0).item()
    assert made.mined is None


def test_a_miner_sees_the_memory():
    memory = Block(X.flip(0), LABELS.flip(0), own=torch.arange(11), ids=torch.arange(11) + 50)
    seen = {}

    def look(similarity, positive, negative):
        seen.update(similarity=similarity, positive=positive, negative=negative)
        return Triplets(*torch.zeros(3, 0, dtype=torch.int64))

    value = loss("triplet", miner=look)(X, LABELS, references=batch_references(X, LABELS, memory))
    assert value.item() == 0.0
    assert seen["similarity"].shape == (11, 22)
    assert torch.equal(
        seen["positive"] | seen["negative"],
        torch.cat([~torch.eye(11, dtype=torch.bool), torch.ones(11, 11, dtype=torch.bool)], 1),
    )


def test_what_is_printed_names_the_miner_and_not_the_mining_that_it_replaces():
    plain, shown = repr(loss("multi_similarity")), repr(loss("multi_similarity", miner="multi_similarity"))
    assert "'multi_similarity'" in plain
    assert "mined=True" in plain
    assert "miner='multi_similarity'" in shown
    assert "mined=" not in shown
