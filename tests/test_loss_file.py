"""A loss in a file that nobody installed: found by its place, imported anew when edited, in no list."""

import pytest
import torch

from similis.objective.context import Context, use_context
from similis.objective.loss import loss
from similis.objective.loss_options import list_losses
from similis.registry import losses
from similis.values import UserError
from tests.run.small import ran

TEXT = '''"""A loss of my own."""

from torch import Tensor

from similis.formula import Cost, compare, register_loss, total


@register_loss(family="pair", geometry="cosine", input="unit", cost=Cost("B^2 D", "B^2"), paper="none", network="none",
               weight="S")
def mine(embeddings: Tensor, labels: Tensor, *, scale: float = 1.0) -> Tensor:
    """Positives near, negatives far."""
    p = compare(embeddings, labels, sphere=True)
    return p.mean(p.neg(lambda t: total(t.s)) - scale * p.pos(lambda t: total(t.s)))
'''


@pytest.fixture
def place(tmp_path):
    (tmp_path / "mine.py").write_text(TEXT)
    return f"{tmp_path / 'mine.py'}:mine"


def test_it_is_a_loss_like_any_other_and_joins_no_list(place):
    value = loss(place, scale=2.0)(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    assert value.isfinite()
    assert losses.get(place).options == {"scale": 1.0}
    assert "mine" not in list_losses()


def test_a_run_of_it_has_the_address_of_its_formula(place, tmp_path):
    first = ran(tmp_path / "runs", objective__loss=place)
    file = tmp_path / "mine.py"
    file.write_text(TEXT.replace('"""Positives near', '"""Other words: positives near'))
    assert ran(tmp_path / "runs", objective__loss=place).address == first.address, "words change nothing"
    file.write_text(TEXT.replace("- scale *", "- 2 * scale *"))
    assert ran(tmp_path / "runs", objective__loss=place).address != first.address
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "mine.py").write_text(TEXT)
    moved = f"{tmp_path / 'else' / 'mine.py'}:mine"
    assert ran(tmp_path / "runs", objective__loss=moved).address == first.address, "nor does its place"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("none.py:mine", None, "there is no file"),
        ("mine.py:other", TEXT, r"has no loss 'other' \(it registers: mine\)"),
        ("mine.py:mine", "raise ValueError('so')", "cannot be imported: ValueError: so"),
        ("mine.py:triplet", TEXT.replace("def mine", "def triplet"), "choose another name"),
    ],
)
def test_mistakes_are_answered(name, text, message, tmp_path):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(UserError, match=message):
        loss(f"{tmp_path}/{name}")
    assert "mine" not in list_losses()


PLAIN = """import torch


def plain(embeddings, labels, *, margin=0.5):
    far = torch.cdist(embeddings, embeddings)
    same = labels[:, None] == labels
    return torch.where(same, far, (margin - far).relu()).mean()


class Learned(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.centres = torch.nn.Parameter(torch.eye(12, 8))

    def forward(self, embeddings, labels):
        return torch.nn.functional.cross_entropy(embeddings @ self.centres.T, labels)


built = Learned()
"""


@pytest.mark.parametrize("name", ["plain", "Learned", "built"])
def test_a_plain_function_or_module_is_a_loss_too(name, tmp_path):
    (tmp_path / "plain.py").write_text(PLAIN)
    x, labels = torch.randn(6, 8, requires_grad=True), torch.tensor([7, 7, 8, 8, 9, 9])
    made = loss(f"{tmp_path / 'plain.py'}:{name}", class_ids=[7, 8, 9])
    made(x, labels).backward()
    assert x.grad.abs().sum() > 0
    assert len(made.parameter_groups(0.1)) == (name != "plain"), "what it learns is trained"
    result = ran(tmp_path / "runs", objective__loss=f"{tmp_path / 'plain.py'}:{name}")
    assert result.test["recall@1"] > 0
    for other in (loss(f"{tmp_path / 'plain.py'}:{name}"), made):
        with use_context(Context(communicator=object())), pytest.raises(UserError, match="use one rank"):
            other(x, labels)


def test_options_of_a_plain_function_are_checked(tmp_path):
    (tmp_path / "plain.py").write_text(PLAIN)
    x, labels = torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 2])
    near, far = (loss(f"{tmp_path / 'plain.py'}:plain", margin=margin)(x, labels) for margin in (0.5, 5.0))
    assert near < far
    with pytest.raises(UserError, match="unknown option of plain 'margn'"):
        loss(f"{tmp_path / 'plain.py'}:plain", margn=1.0)
