"""The tests keep nothing outside their own folders; some of them make the quick tier."""

import os
from pathlib import Path

import pytest

from similis.data.content import VARIABLE

HERE = Path(__file__).parent
# `pytest -m quick`: one test or more of every layer, chosen by what they find for a second of time. A file of contracts
# marks its own quick cases: the oracle of every loss in every form.
QUICK = (
    "cli/test_main.py", "contracts/test_losses.py", "data/test_samplers.py", "data/test_splits.py",
    "data/test_transforms.py", "networks/test_pooling.py", "objective/losses", "objective/test_context.py",
    "objective/test_loss.py", "objective/backends/tiled/test_backend.py", "objective/terms/test_distances.py",
    "retrieval/metrics/test_ranking.py", "run/test_spec.py", "study/plan/test_plan.py", "test_labels.py",
    "test_registry.py", "test_sphere.py", "test_values.py",
)  # fmt: skip
# Tests of those files that stay out: the only ones to import a compiler, scikit-learn, Matplotlib or another library.
LEFT_OUT = {
    "test_it_compiles_to_one_graph_and_maps_over_batches", "test_draw_writes_a_picture_of_the_form",
    "test_where_every_anchor_has_positives_the_peer_agrees_on_the_generalised_form",
}  # fmt: skip


def is_quick(path: Path) -> bool:
    """Whether a file belongs to the quick tier, or a folder holds one that does."""
    own = path.relative_to(HERE).as_posix()
    return any(f"{own}/".startswith(f"{each}/") or f"{each}/".startswith(f"{own}/") for each in QUICK)


def pytest_ignore_collect(collection_path, config):
    """The quick tier imports no other file."""
    if config.option.markexpr == "quick" and collection_path != HERE and HERE in collection_path.parents:
        return None if is_quick(collection_path) else True
    return None


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    """Mark the files of the quick tier, but for what is slow."""
    for item in items:
        left_out = "contracts" in item.path.parts or item.name in LEFT_OUT or item.get_closest_marker("slow")
        if is_quick(item.path) and not left_out:
            item.add_marker(pytest.mark.quick)


@pytest.fixture(autouse=True, scope="session")
def cache_folder(tmp_path_factory):
    """Hashes of images go to a folder of this session; processes that tests start inherit it."""
    os.environ[VARIABLE] = str(tmp_path_factory.mktemp("cache"))
    os.environ.pop("COLUMNS", None)  # parallel tests run with COLUMNS=80, which tables would keep to


@pytest.fixture
def fresh_compiler():
    """A compiler that has seen nothing, before and after."""
    import torch

    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
