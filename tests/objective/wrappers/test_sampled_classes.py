"""Sampled classes: right on average where the loss adds over classes, too small where it takes a logarithm."""

from itertools import combinations

import pytest
import torch

from similis.objective.context import distributed, tiles
from similis.objective.loss import loss
from similis.objective.sharding import shard
from similis.objective.wrappers.sampled_classes import SampledClasses, classes_of, draw_others
from similis.registry import losses
from similis.values import UserError
from tests.batches import random_learned
from tests.proof import forms

CLASSES, DIM = 7, 5
PRESENT = torch.tensor([0, 2, 5])
OTHERS = [1, 3, 4, 6]
LABELS = torch.tensor([2, 0, 5, 2, 0, 2])
SAMPLED = [pytest.param(e, f, id=f"{e.name}:{f}") for e, f in forms() if e.class_sampling != "none"]
UNBIASED = [pytest.param(e, f, id=f"{e.name}:{f}") for e, f in forms() if e.class_sampling == "unbiased"]
BIASED = [pytest.param(e, f, id=f"{e.name}:{f}") for e, f in forms() if e.class_sampling == "biased"]
REFUSED = [pytest.param(e, id=e.name) for e in losses if e.class_sampling == "none"]


def built(entry, form, dtype=torch.float64, **more):
    made = loss(entry.name, num_classes=CLASSES, dim=DIM, **entry.forms[form], **more)
    shapes = {key: tuple(value.shape) for key, value in made.learned.items()}
    for key, value in random_learned(shapes, 0).items():
        made.learned[key].data = value.to(dtype)
    return made


def samples(dtype=torch.float64):
    return torch.randn(len(LABELS), DIM, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)


def found(function, x, parameters):
    """Value and gradients of samples and class vectors."""
    x = x.clone().requires_grad_()
    value = function(x)
    return [value.detach(), *(g.detach() for g in torch.autograd.grad(value, [x, *parameters]))]


def over_draws(sampled, x, rows, number):
    """The exact mean over all sets of ``number`` other classes, and the value of each."""
    parameters = list(sampled.parameters())
    sets = list(combinations(OTHERS, number))
    results = [
        found(lambda e, s=s: sampled.over(e, rows, PRESENT, torch.tensor(s)), x, parameters)  # type: ignore[misc]
        for s in sets
    ]
    return [torch.stack(parts).mean(0) for parts in zip(*results, strict=True)], [r[0].item() for r in results]


def test_which_losses_are_sampled():
    kinds = {entry.name: entry.class_sampling for entry in losses}
    assert [name for name, kind in kinds.items() if kind == "unbiased"] == ["proxy_anchor"]
    assert sorted(name for name, kind in kinds.items() if kind == "biased") == [
        "arcface", "cosface", "normface", "proxy_nca", "proxy_nca_pp", "soft_triple", "softmax", "subcenter_arcface",
    ]  # fmt: skip


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("entry", "form"), SAMPLED)
def test_all_classes_are_the_loss(entry, form, sparse):
    made, x = built(entry, form), samples()
    want = found(lambda e: made(e, LABELS), x, list(made.parameters()))
    sampled = SampledClasses(made, 1.0, sparse=sparse)
    got = found(lambda e: sampled(e, LABELS), x, list(sampled.parameters()))
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a.to_dense() if a.is_sparse else a, b, rtol=1e-12, atol=1e-12)
    assert got[2].is_sparse is sparse


@pytest.mark.parametrize(("entry", "form"), SAMPLED)
def test_tiles_dtypes_and_class_ids_agree_with_the_dense_double_one(entry, form):
    drawn, x = torch.tensor([4, 1]), samples()
    sampled = SampledClasses(built(entry, form), 0.5)
    want = found(lambda e: sampled.over(e, LABELS, PRESENT, drawn), x, list(sampled.parameters()))
    with tiles(4, 3):
        got = found(lambda e: sampled.over(e, LABELS, PRESENT, drawn), x, list(sampled.parameters()))
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b, rtol=1e-11, atol=1e-11)
    single = SampledClasses(built(entry, form, torch.float32), 0.5)
    value = single.over(x.float(), LABELS, PRESENT, drawn)
    assert value.item() == pytest.approx(want[0].item(), rel=1e-5, abs=1e-5)
    half = x.bfloat16()
    exact = sampled.over(half.double(), LABELS, PRESENT, drawn)
    assert single.over(half, LABELS, PRESENT, drawn).item() == pytest.approx(exact.item(), rel=1e-3, abs=1e-3)
    ids = torch.tensor([-4, 3, 8, 9, 100, 2**40, 2**50])
    named = SampledClasses(built(entry, form, class_ids=ids.tolist()), 0.5, seed=5)
    plain = SampledClasses(built(entry, form), 0.5, seed=5)
    assert named(x, ids[LABELS]).item() == pytest.approx(plain(x, LABELS).item(), rel=1e-12)


@pytest.mark.parametrize(("entry", "form"), SAMPLED)
def test_a_class_that_counts_twice_is_there_twice(entry, form):
    drawn, x = torch.tensor([1, 4]), samples()  # two of four others
    sampled, whole = SampledClasses(built(entry, form), 0.5), built(entry, form)
    rows = torch.tensor([0, 2, 5, 1, 4, 1, 4])
    vectors = whole.learned["proxies"].detach()[rows].requires_grad_()
    want = found(lambda e: whole.of(e, torch.searchsorted(PRESENT, LABELS), {"proxies": vectors}), x, [vectors])
    want[2] = torch.zeros_like(whole.learned["proxies"]).index_add_(0, rows, want[2])
    got = found(lambda e: sampled.over(e, LABELS, PRESENT, drawn), x, list(sampled.parameters()))
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize(("entry", "form"), UNBIASED)
def test_the_mean_over_all_draws_is_the_loss(entry, form, number):
    made, x = built(entry, form), samples()
    want = found(lambda e: made(e, LABELS), x, list(made.parameters()))
    mean, single = over_draws(SampledClasses(made, 0.5), x, LABELS, number)
    assert max(single) - min(single) > 1e-3  # the draws do differ
    for a, b in zip(mean, want, strict=True):
        assert float((a - b).abs().max()) <= 1e-12 * max(1.0, float(b.abs().max()))


def test_the_mean_over_all_draws_is_the_loss_of_a_relation():
    entry = losses.get("proxy_anchor")
    made, x = built(entry, "default"), samples()
    relation = torch.zeros(len(LABELS), CLASSES)
    relation[torch.arange(len(LABELS)), LABELS] = 1.0
    relation[0, 5], relation[1, 3], relation[2, 2] = 1.0, -1.0, -1.0
    assert classes_of(relation).tolist() == PRESENT.tolist()
    want = found(lambda e: made(e, relation), x, list(made.parameters()))
    mean, _ = over_draws(SampledClasses(made, 0.5), x, relation, 2)
    for a, b in zip(mean, want, strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12)
    assert torch.isfinite(SampledClasses(made, 0.5)(x, relation))


@pytest.mark.parametrize(("entry", "form"), BIASED)
def test_the_mean_of_a_logarithm_is_too_small_and_grows_with_the_draw(entry, form):
    made, x = built(entry, form), samples()
    want = made(x, LABELS).item()
    sampled = SampledClasses(made, 0.5)
    mean = [over_draws(sampled, x, LABELS, number)[0][0].item() for number in (1, 2, 3, 4)]
    gaps = [want - value for value in mean]
    assert gaps[0] > gaps[1] > gaps[2] > 1e-6
    assert abs(gaps[3]) <= 1e-12 * max(1.0, abs(want))


def test_how_far_a_softmax_is_off():
    made, x = built(losses.get("softmax"), "default"), samples()
    want = made(x, LABELS).item()
    vectors = made.learned["proxies"].detach()
    mean, _ = over_draws(SampledClasses(made, 0.5), x, LABELS, 2)
    bare = []
    for drawn in combinations(OTHERS, 2):
        kept = torch.tensor(sorted([*PRESENT.tolist(), *drawn]))
        bare.append(made.entry.function(x, torch.searchsorted(kept, LABELS), proxies=vectors[kept]).item())
    assert max(bare) < want  # without weights every draw is too small
    assert sum(bare) / len(bare) < mean[0].item() < want  # with them the mean is, by less
    # the size of the error that the docstring names: half the relative variance of the sampled sum
    logits = x @ vectors.T
    off = (made(x, LABELS) - mean[0]).item()
    sums = torch.stack(
        [logits[:, PRESENT].exp().sum(1) + 2 * logits[:, list(s)].exp().sum(1) for s in combinations(OTHERS, 2)]
    )
    half = (sums.var(0, correction=0) / sums.mean(0) ** 2 / 2).mean().item()
    assert off == pytest.approx(half, rel=0.5)


def test_draws_are_even_and_never_of_the_batch():
    counts = dict.fromkeys(combinations(OTHERS, 2), 0)
    generator = torch.Generator().manual_seed(0)
    for _ in range(1200):
        counts[tuple(sorted(draw_others(PRESENT, CLASSES, 0.5, generator).tolist()))] += 1
    chi2 = sum((count - 200) ** 2 / 200 for count in counts.values())
    assert chi2 < 20.5  # 0.1 % of all series of five degrees of freedom
    assert draw_others(PRESENT, CLASSES, 0.01, generator).numel() == 1
    assert draw_others(torch.arange(3), 3, 0.5, generator).numel() == 0


def test_a_draw_follows_from_seed_and_number_of_calls():
    x = samples()
    first, second = (SampledClasses(built(losses.get("softmax"), "default"), 0.5, seed=1) for _ in range(2))
    values = [first(x, LABELS).item() for _ in range(6)]
    assert len(set(values)) > 2
    second.load_state_dict(first.state_dict())
    first.draws.zero_()
    assert [first(x, LABELS).item() for _ in range(6)] == values
    assert second(x, LABELS).item() == first(x, LABELS).item()


def test_a_compiled_call_is_the_plain_one():
    x = samples()
    plain, other = (SampledClasses(built(losses.get("softmax"), "default"), 0.5, seed=1) for _ in range(2))
    assert torch.compile(other, backend="eager")(x, LABELS).item() == plain(x, LABELS).item()


@pytest.mark.parametrize("entry", REFUSED)
def test_other_losses_are_refused(entry):
    with pytest.raises(UserError, match=f"classes of {entry.name} cannot be sampled.*proxy_anchor"):
        SampledClasses(loss(entry.name, num_classes=CLASSES, dim=DIM, **next(iter(entry.forms.values()))), 0.5)


class Second:
    rank, world = 1, 2


def test_refusals():
    made = built(losses.get("softmax"), "default")
    for share in (0.0, 1.5, -1.0):
        with pytest.raises(UserError, match="share is"):
            SampledClasses(made, share)
    with pytest.raises(UserError, match="labels run from 2 to 7"):
        SampledClasses(made, 0.5)(samples(), LABELS + 2)
    with distributed(Second()), pytest.raises(UserError, match="cannot be averaged"):  # type: ignore[arg-type]
        SampledClasses(made, 0.5, sparse=True)(samples(), LABELS)
    with pytest.raises(UserError, match="inside distributed"):
        SampledClasses(shard(made, Second()), 0.5)(samples(), LABELS)  # type: ignore[arg-type]
