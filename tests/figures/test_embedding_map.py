"""Maps: principal coordinates against numpy's singular values, classes in their colours."""

import numpy as np
import pytest
import torch

from similis.figures.embedding_map import MOST, draw_map, principal_plane
from similis.values import UserError

VECTORS = torch.randn(60, 7, generator=torch.Generator().manual_seed(0)) * torch.tensor([5, 3, 1, 1, 1, 1, 1.0])


def test_the_plane_is_that_of_the_singular_values():
    plane, share = principal_plane(VECTORS)
    centred = (VECTORS - VECTORS.mean(0)).double().numpy()
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    assert np.abs(plane.numpy()) == pytest.approx(np.abs(left[:, :2] * values[:2]), abs=1e-6)
    assert share.numpy() == pytest.approx(values[:2] ** 2 / (values**2).sum(), rel=1e-6)


def test_turning_all_vectors_round_changes_the_map_by_no_sign():
    for vectors in (VECTORS, -VECTORS):
        plane = principal_plane(vectors)[0]
        assert all(float(column[column.abs().argmax()]) > 0 for column in plane.T)
    assert torch.allclose(plane, principal_plane(3 - VECTORS)[0], atol=1e-5)


def test_two_dimensions_or_one_are_enough():
    assert principal_plane(torch.tensor([[1.0], [3.0]]))[0].abs().tolist() == [[1.0, 0.0], [1.0, 0.0]]
    with pytest.raises(UserError, match="two images or more"):
        principal_plane(torch.zeros(1, 4))


@pytest.mark.parametrize("classes", [3, 30])
def test_every_image_is_a_point_and_every_shown_class_is_named(classes):
    labels = torch.arange(60) % classes
    figure = draw_map(VECTORS, labels, names={n: f"kind {n}" for n in range(classes)}, title="a map")
    drawn = figure.axes[0].collections
    assert sum(len(points.get_offsets()) for points in drawn) == 60
    words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert len([w for w in words if w.startswith("kind")]) == min(classes, MOST)
    assert (f"{classes - MOST} more" in words) == (classes > MOST)


def test_points_of_a_class_stand_where_the_plane_puts_them():
    labels = torch.arange(60) % 3
    figure = draw_map(VECTORS, labels)
    plane = principal_plane(VECTORS)[0]
    assert np.asarray(figure.axes[0].collections[1].get_offsets()) == pytest.approx(plane[labels == 1].numpy())
