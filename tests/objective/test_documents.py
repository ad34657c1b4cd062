"""Losses with two sides: every pair and triplet loss against itself on one batch with a relation, and refusals."""

import pytest
import torch

import similis
from similis.objective.context import tiles
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.registry import losses
from similis.training.gradient_cache import GradientCache
from similis.values import UserError
from tests.proof import build, forms

QUERIES, DOCUMENTS, OWN = 8, 10, 2
LABELS = torch.tensor([0, 2, 1, 0, 3, 1, 2, 3])
NAMES = torch.tensor([1, 0, 0, 2, 3, 1, 5, 2, 0, 3])
PAIRED = ("lifted:song", "npair:one", "npair:pairs")  # forms of one batch
MEAN_OF_ALL = (
    "lifted:deepmetric", "multi_similarity:default", "multi_similarity:unmined", "multi_similarity:direction",
    "pairwise_sigmoid:default",
)  # fmt: skip
ONE_WAY = {"info_nce": {"direction": "to_documents", "same_side": False}, "npair": {"l2": 0.0}}
TWO_SIDED = [
    pytest.param(entry, form, id=f"{entry.name}:{form}")
    for entry, form in forms()
    if entry.memory and entry.family in ("pair", "triplet") and f"{entry.name}:{form}" not in PAIRED
]


def sides(seed=0, columns=DOCUMENTS):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((QUERIES, 5), (columns, 5), (QUERIES, OWN, 5))
    return [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]


def gradients(value, *tensors):
    found = torch.autograd.grad(value, tensors, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for g, t in zip(found, tensors, strict=True)]


def assert_same(value, want, tensors):
    torch.testing.assert_close(value, want, rtol=1e-9, atol=1e-9)
    for got, truth in zip(gradients(value, *tensors), gradients(want, *tensors), strict=True):
        torch.testing.assert_close(got, truth, rtol=1e-8, atol=1e-9)


def one_batch(queries, documents, negatives):
    """All vectors as one batch, and who is whose positive (1), negative (0) or neither (-1)."""
    vectors = torch.cat([queries, documents, negatives.flatten(0, 1)])
    relation = torch.full((len(vectors), len(vectors)), -1.0, dtype=torch.float64)
    relation[:QUERIES, QUERIES : QUERIES + DOCUMENTS] = (LABELS[:, None] == NAMES[None, :]).double()
    for row in range(QUERIES):
        first = QUERIES + DOCUMENTS + row * OWN
        relation[row, first : first + OWN] = 0.0
    return vectors, relation


@pytest.mark.parametrize(("entry", "form"), [each for each in TWO_SIDED if each.values[0].relation != "none"])
def test_two_sides_are_one_batch_with_a_relation(entry, form):
    made = build(entry, form, **ONE_WAY.get(entry.name, {}))
    queries, documents, negatives = sides()
    value = made(queries, LABELS, documents=documents, document_labels=NAMES, negatives=negatives)
    vectors, relation = one_batch(queries, documents, negatives)
    want = made(vectors, relation)
    ratio = len(vectors) / QUERIES if f"{entry.name}:{form}" in MEAN_OF_ALL else 1.0
    assert_same(value, want * ratio, [queries, documents, negatives])


@pytest.mark.parametrize("own", [False, True], ids=["all", "each"])
@pytest.mark.parametrize(("entry", "form"), TWO_SIDED)
def test_tiles_of_two_sides(entry, form, own):
    made = build(entry, form)
    queries, documents, negatives = sides(1)
    given = {"documents": documents, "document_labels": NAMES, "negatives": negatives if own else negatives[:, 0]}
    want = made(queries, LABELS, **given)
    with tiles(3, 4):
        value = made(queries, LABELS, **given)
    assert_same(value, want, [queries, documents, negatives])


@pytest.mark.parametrize(("entry", "form"), TWO_SIDED)
def test_hard_negatives_of_all_are_documents_of_nobody(entry, form):
    made = build(entry, form, **ONE_WAY.get(entry.name, {}))
    queries, documents, negatives = sides(2)
    value = made(queries, LABELS, documents=documents, document_labels=NAMES, negatives=negatives[:, 0])
    joined, names = torch.cat([documents, negatives[:, 0]]), torch.cat([NAMES, torch.arange(QUERIES) + 50])
    want = made(queries, LABELS, documents=joined, document_labels=names)
    assert_same(value, want, [queries, documents, negatives])


def test_row_i_belongs_to_row_i_and_labels_may_be_words():
    queries, documents, _ = sides(3, QUERIES)
    made = similis.loss("info_nce", direction="both")
    numbers = list(range(QUERIES))
    words = [f"w{i}" for i in numbers]
    want = made(queries, torch.tensor(numbers), documents=documents)
    assert torch.equal(made(queries, documents=documents), want)
    assert torch.equal(made(queries, words, documents=documents, document_labels=words), want)
    assert torch.equal(made(queries, words, documents=documents), want)


def test_classes_with_parameters_are_found_by_class_ids():
    queries, documents, _ = sides(4)
    plain = build(losses.get("margin"), "per_class")
    named = build(losses.get("margin"), "per_class", class_ids=[10, 11, 12, 13])
    value = named(queries, LABELS + 10, documents=documents, document_labels=NAMES % 4 + 10)
    assert_same(value, plain(queries, LABELS, documents=documents, document_labels=NAMES % 4), [queries, documents])


def test_a_not_finite_document_reaches_the_value():
    queries, documents, _ = sides(5, QUERIES)
    broken = documents.detach().clone()
    broken[3, 2] = float("nan")
    assert similis.loss("triplet")(queries, documents=broken).isnan()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "labels are None; give one for each row, any hashable values, or pass documents="),
        ({"labels": LABELS, "negatives": torch.ones(3, 5)}, "negatives are given without documents; pass documents="),
        ({"documents": torch.ones(9, 5)}, "there are 8 queries and 9 documents; pass one document for each"),
        ({"documents": torch.ones(8, 4)}, r"documents have shape \(8, 4\); pass \(M, 5\)"),
        ({"documents": torch.ones(8, 5), "document_labels": LABELS}, "document_labels are given without labels"),
        ({"documents": torch.ones(8, 5), "labels": torch.eye(8)}, "not with a relation matrix"),
        ({"documents": torch.ones(0, 5), "labels": LABELS, "document_labels": LABELS[:0]}, "there are no documents"),
        ({"documents": torch.ones(8, 5).double()}, "documents are torch.float64 and the queries torch.float32"),
        ({"documents": torch.ones(8, 5), "negatives": [1]}, "negatives are list and the queries"),
        ({"documents": torch.ones(8, 5), "labels": LABELS, "document_labels": ["a"] * 8}, "document_labels are str"),
        ({"documents": torch.ones(8, 5), "tuples": ()}, "cannot be combined with references= or tuples="),
        ({"documents": torch.ones(8, 5), "negatives": torch.ones(8, 4)}, r"negatives have shape \(8, 4\)"),
        ({"documents": torch.ones(8, 5), "negatives": torch.ones(7, 2, 5)}, "negatives have 7 rows for 8 queries"),
    ],
)
def test_refusals(given, words):
    with pytest.raises(UserError, match=words):
        similis.loss("info_nce")(torch.ones(QUERIES, 5), **given)


def test_losses_of_classes_and_forms_of_one_batch_take_no_documents():
    x = torch.ones(4, 5)
    with pytest.raises(UserError, match="proxy_anchor compares samples with classes and takes no documents"):
        similis.loss("proxy_anchor", num_classes=4, dim=5)(x, documents=x)
    with pytest.raises(UserError, match="pairs samples of one batch"):
        similis.loss("npair", positives="one")(x, documents=x)


def test_values_of_classes_need_labels():
    with pytest.raises(UserError, match="margin learns a value for each class; pass labels="):
        build(losses.get("margin"), "per_class")(torch.ones(4, 5), documents=torch.ones(4, 5))


def test_a_tensor_of_labels_beside_a_list_of_integers():
    queries, documents, _ = sides(3)
    made = similis.loss("triplet")
    want = made(queries, LABELS, documents=documents, document_labels=NAMES)
    assert torch.equal(made(queries, LABELS, documents=documents, document_labels=NAMES.tolist()), want)


@pytest.mark.parametrize("shape", [(0, 5), (QUERIES, 0, 5)])
@pytest.mark.parametrize(("entry", "form"), TWO_SIDED)
def test_no_hard_negatives_are_none(entry, form, shape):
    made, (queries, documents, _) = build(entry, form), sides(9)
    given = {"documents": documents, "document_labels": NAMES}
    want = made(queries, LABELS, **given)
    assert torch.equal(made(queries, LABELS, **given, negatives=torch.ones(shape, dtype=torch.float64)), want)


@pytest.mark.parametrize("own_network", [False, True])
@pytest.mark.parametrize("own_negatives", [False, True])
def test_gradient_cache_of_two_sides(own_network, own_negatives):
    torch.manual_seed(0)
    first, second = torch.nn.Linear(5, 4).double(), torch.nn.Linear(5, 4).double()
    other = second if own_network else first
    queries, documents, negatives = (x.detach() for x in sides(6, QUERIES))
    negatives = negatives if own_negatives else negatives[:, 0]
    made = similis.loss("info_nce", direction="both", learnable=True).double()
    parameters = [*first.parameters(), *other.parameters(), *made.parameters()]
    want = made(first(queries), documents=other(documents), negatives=other(negatives))
    truth = torch.autograd.grad(want, parameters)
    cache = GradientCache(first, made, 3, document_network=second if own_network else None)
    value = cache(queries, documents=documents, negatives=negatives)
    value.backward()
    assert value.item() == pytest.approx(want.item(), abs=1e-12)
    for parameter, gradient in zip(parameters, truth, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-9, atol=1e-12)


def test_a_memory_keeps_documents():
    made = similis.loss("info_nce", temperature=0.2)
    remembering = CrossBatchMemory(made, size=2 * DOCUMENTS).double()
    first, second = sides(7), sides(8)
    value = remembering(first[0], LABELS, documents=first[1], document_labels=NAMES)
    assert_same(value, made(first[0], LABELS, documents=first[1], document_labels=NAMES), first[:2])
    value = remembering(second[0], LABELS, documents=second[1], document_labels=NAMES)
    joined = torch.cat([second[1], first[1].detach()])
    want = made(second[0], LABELS, documents=joined, document_labels=NAMES.repeat(2))
    assert_same(value, want, second[:2])


def test_a_memory_refuses_what_its_loss_refuses():
    remembering, x = CrossBatchMemory(similis.loss("info_nce"), size=4), torch.ones(4, 5)
    for given, words in (
        ({"labels": None, "documents": x}, "a memory needs labels"),
        ({"labels": LABELS[:4], "negatives": x}, "negatives are given without documents"),
    ):
        with pytest.raises(UserError, match=words):
            remembering(x, **given)
    by_class = CrossBatchMemory(similis.loss("proxy_anchor", num_classes=4, dim=5), size=4)
    with pytest.raises(UserError, match="takes no documents"):
        by_class(x, LABELS[:4], documents=x)


def test_a_gradient_cache_says_that_inputs_of_one_network_differ():
    cache = GradientCache(torch.nn.Linear(5, 4), similis.loss("info_nce"), chunk=2)
    with pytest.raises(UserError, match=r"shapes \(4, 5\) and \(4, 6\); pad them to one"):
        cache(torch.ones(4, 5), documents=torch.ones(4, 6))
