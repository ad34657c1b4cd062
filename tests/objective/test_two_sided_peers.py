"""Losses with two sides equal those of sentence-transformers and open_clip, in value and in every gradient."""

import runpy
from importlib.metadata import PackageNotFoundError, distribution

import pytest
import torch
from torch.nn.functional import normalize

import similis

pytestmark = pytest.mark.slow
ROWS, DIM = 9, 6
BOTH = ("query_to_doc", "doc_to_query")


def sides(*shapes):
    generator = torch.Generator().manual_seed(5)
    made = [torch.randn(*shape, DIM, generator=generator, dtype=torch.float64) for shape in shapes]
    return [each.requires_grad_() for each in made]


def assert_same(value, want, tensors):
    got, truth = (torch.autograd.grad(each, tensors) for each in (value, want))
    for ours, theirs in zip((value, *got), (want, *truth), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def ranking_loss(embeddings, **options):
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    peer = losses.MultipleNegativesRankingLoss(torch.nn.Identity(), scale=20.0, **options)
    return peer.compute_loss_from_embeddings(embeddings, torch.empty(0))


def open_clip_loss(name):
    try:
        path = distribution("open_clip_torch").locate_file("open_clip/loss.py")
    except PackageNotFoundError:
        pytest.skip("open_clip_torch is not installed; .ci/slow installs it without its dependencies")
    return runpy.run_path(str(path))[name]()


def test_one_direction_is_multiple_negatives_ranking():
    queries, documents = sides((ROWS,), (ROWS,))
    value = similis.loss("info_nce", temperature=0.05)(queries, documents=documents)
    assert_same(value, ranking_loss([queries, documents]), [queries, documents])


def test_both_directions_are_multiple_negatives_ranking():
    queries, documents = sides((ROWS,), (ROWS,))
    value = similis.loss("info_nce", temperature=0.05, direction="both")(queries, documents=documents)
    want = ranking_loss([queries, documents], directions=BOTH, partition_mode="per_direction")
    assert_same(value, want, [queries, documents])


def test_hard_negatives_are_those_of_multiple_negatives_ranking():
    """Its columns of negatives serve every query of the batch."""
    queries, documents, first, second = sides((ROWS,), (ROWS,), (ROWS,), (ROWS,))
    value = similis.loss("info_nce", temperature=0.05)(
        queries, documents=documents, negatives=torch.cat([first, second])
    )
    assert_same(value, ranking_loss([queries, documents, first, second]), [queries, documents, first, second])


def test_both_directions_with_a_learned_scale_are_the_loss_of_clip():
    peer = open_clip_loss("ClipLoss")
    queries, documents = sides((ROWS,), (ROWS,))
    ours = similis.loss("info_nce", preset="paper").double()
    value, scale = ours(queries, documents=documents), ours.learned["log_scale"]
    want = peer(normalize(queries), normalize(documents), scale.exp())
    assert_same(value, want, [queries, documents, scale])


def test_the_pairwise_sigmoid_is_the_loss_of_siglip():
    peer = open_clip_loss("SigLipLoss")
    queries, documents = sides((ROWS,), (ROWS,))
    ours = similis.loss("pairwise_sigmoid").double()
    value, learned = ours(queries, documents=documents), [*ours.learned.values()]
    want = peer(normalize(queries), normalize(documents), ours.learned["log_scale"].exp(), ours.learned["bias"])
    assert_same(value, want, [queries, documents, *learned])
