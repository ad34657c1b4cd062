"""A back-end from outside: a class with the methods of the protocol, registered by name, computes every loss."""

import pytest
import torch

import similis
from similis.objective.backends.registry import BACKENDS, Operands, register_backend
from similis.objective.context import dense, use_backend
from similis.objective.references import Block, batch_references
from similis.objective.terms.reductions import Top, as_terms
from similis.objective.terms.tile import Tile
from similis.registry import losses
from similis.values import UserError
from tests.batches import random_batch


class RowByRow:
    """The plainest back-end: one row at a time, a list of its columns, PyTorch's own gradients."""

    def __init__(self, operands: Operands) -> None:
        self.operands = operands
        change = (lambda v: torch.nn.functional.normalize(v, dim=-1)) if operands.normalise else lambda v: v
        self._rows = change(operands.vectors)
        self._columns = [change(block.vectors) for block in operands.references]
        self.asked = []

    def rows(self):
        return self._rows

    def columns(self, number):
        return self._columns[number]

    def take(self, number, index):
        return self._columns[number][index]

    def own(self, number, fn):
        return fn(self._columns[number])

    def hinges(self, geometry, margin):
        return None

    def reduce(self, ask, number, first):
        self.asked.append(ask.which)
        block, columns = self.operands.references.blocks[number], self._columns[number]
        members = block.members(ask.which, self.operands.row_labels)
        parts, kinds = [], []
        for i in range(len(self._rows)):
            tile = self.tile(block, columns, first, i)
            values = [v[i : i + 1].unsqueeze(1) for v in ask.rows] + [v.unsqueeze(0) for v in ask.cols]
            values += [torch.tensordot(v[i], columns, ([-1], [-1])).movedim(-1, 0)[None] for v in ask.dots]
            terms = as_terms(ask.fn(tile, *values))
            kinds = [term.kind for term in terms]
            inside = torch.ones(len(columns), dtype=torch.bool) if members is None else members[i]
            parts.append([self.one(term, inside, first) for term in terms])
        found = list(zip(*parts, strict=True))
        return kinds, [
            Top(*(torch.stack(x) for x in zip(*each, strict=True))) if kind == "top" else torch.stack(each)
            for kind, each in zip(kinds, found, strict=True)
        ]

    def tile(self, block, columns, first, i):
        labels, relation = self.operands.row_labels, block.relation
        row = self._rows[i : i + 1]
        return Tile(
            s=torch.tensordot(row, columns, ([-1], [-1])),
            squares=None if self.operands.on_sphere else (row.square().sum(1)[:, None], columns.square().sum(1)[None]),
            grade=1.0 if relation is None else relation[i : i + 1],
            once=0.5 if block.mirrored else 1.0,
            row_labels=None if labels is None else labels[i : i + 1],
            column_labels=block.labels,
            columns=torch.arange(first, first + len(columns))[None],
        )

    @staticmethod
    def one(term, inside, first):
        """One term of one row: (1, c) or (1, c, m)."""
        values = term.values[0]
        where = inside if term.where is None else None
        if where is None:
            own = term.where.expand_as(term.values)[0]
            where = own & (inside if own.ndim == 1 else inside[:, None])
        where = (where if where.ndim == values.ndim else where[:, None]).expand_as(values)
        if term.kind == "total":
            return torch.where(where, values, 0).sum(0)
        if term.kind == "lse":
            return torch.logsumexp(torch.where(where, values, -torch.inf), 0)
        flat = torch.where(where, values, -torch.inf).flatten()
        best, place = torch.cat([flat, flat.new_full((term.k,), -torch.inf)]).sort(descending=True, stable=True)
        stack = values.shape[1] if values.ndim == 2 else 1
        index = torch.where(best == -torch.inf, -1, place + first * stack)
        return best[: term.k], index[: term.k]


@pytest.fixture
def by_row():
    made = []
    register_backend("row by row", lambda operands: made.append(RowByRow(operands)) or made[-1])
    yield made
    del BACKENDS["row by row"]


def value_and_gradients(criterion, x, labels, **given):
    x = x.clone().requires_grad_()
    value = criterion(x, labels, **given)
    return [value.detach(), *torch.autograd.grad(value, [x, *criterion.parameters()])]


@pytest.mark.parametrize("entry", list(losses), ids=lambda entry: entry.name)
def test_every_loss_and_form(entry, by_row):
    x, labels = random_batch(0)
    for options in [{}, *entry.forms.values()]:
        criterion = similis.loss(entry.name, num_classes=4, dim=x.shape[1], **options).double()
        with dense():
            want = value_and_gradients(criterion, x, labels)
        with use_backend("row by row"):
            got = value_and_gradients(criterion, x, labels)
        for a, b in zip(got, want, strict=True):
            assert torch.allclose(a, b, rtol=1e-10, atol=1e-12)
    assert any(backend.asked for backend in by_row)


@pytest.mark.parametrize("name", ["supcon", "triplet", "multi_similarity"])
def test_a_memory_and_a_relation(name, by_row):
    x, labels = random_batch(0)
    old, old_labels = random_batch(1)
    memory = Block(old, old_labels, own=torch.arange(11), ids=torch.arange(11) + 4)
    relation = (labels[:, None] == labels).double() / 2
    criterion = similis.loss(name)
    found = []
    for context in (dense(), use_backend("row by row")):
        with context:
            found.append(value_and_gradients(criterion, x, relation))
            found[-1] += value_and_gradients(criterion, x, labels, references=batch_references(x, labels, memory))
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-12)
    assert by_row


@pytest.mark.parametrize("name", ["dense", "tiled"])
def test_ours_have_names_too(name):
    x, labels = random_batch(0)
    with use_backend(name):
        got = value_and_gradients(similis.loss("supcon"), x, labels)
    for a, b in zip(got, value_and_gradients(similis.loss("supcon"), x, labels), strict=True):
        assert torch.allclose(a, b, rtol=1e-12)


def test_an_unknown_name_is_told():
    x, labels = random_batch(0)
    with use_backend("dens"), pytest.raises(UserError, match="dense"):
        similis.loss("supcon")(x, labels)
