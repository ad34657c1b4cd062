"""Values that travel between rooms: errors people can catch, counts, defaults."""

import sys
import tomllib
from pathlib import Path

import pytest
import torch

from similis.values import EXTRAS, DataError, MissingExtraError, Pairs, SimilisError, Triplets, UserError, import_extra


@pytest.mark.parametrize(
    ("error", "usual"), [(UserError, ValueError), (DataError, ValueError), (MissingExtraError, ImportError)]
)
def test_every_error_is_one_of_ours_and_a_usual_one(error, usual):
    assert issubclass(error, SimilisError)
    assert issubclass(error, usual)


@pytest.mark.parametrize("module", EXTRAS)
def test_every_module_outside_the_base_install_names_an_extra_that_exists(module, monkeypatch):
    declared = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert EXTRAS[module] in declared["optional-dependencies"]
    monkeypatch.setitem(sys.modules, module, None)  # what an absent package looks like to import
    remedy = rf"in your clone of Similis run: pip install -e '\.\[{EXTRAS[module]}\]'"
    with pytest.raises(MissingExtraError, match=f"^{module} is not installed; {remedy}$"):
        import_extra(module)


def test_a_module_that_misses_something_of_its_own_is_not_called_absent(tmp_path, monkeypatch):
    (tmp_path / "faiss.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    with pytest.raises(ModuleNotFoundError, match="no_such_module") as raised:
        import_extra("faiss")
    assert not isinstance(raised.value, MissingExtraError)


def test_triplets_count_themselves_and_their_distinct_anchors():
    assert Triplets(torch.tensor([4, 4, 1]), torch.zeros(3), torch.zeros(3)).counts() == (3, 2)
    empty = torch.zeros(0, dtype=torch.int64)
    assert Triplets(empty, empty, empty).counts() == (0, 0)


def test_pairs_count_both_kinds():
    pairs = Pairs(torch.tensor([0, 0]), torch.tensor([1, 2]), torch.tensor([5]), torch.tensor([6]))
    assert pairs.counts() == (3, 2)
