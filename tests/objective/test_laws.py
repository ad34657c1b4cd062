"""The law that each loss states, time and memory in B, C and T, against counted work and the tensors it makes."""

import re
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.losses import exponent
from similis.objective.context import dense, tiles
from similis.objective.loss import loss
from similis.registry import losses, miners
from similis.values import Pairs, Triplets
from tests.proof import SHAPES

DIM = 16
FORMS = {  # what makes the law visible: sizes that do not grow with C
    "proxy_gml": {"subproxies": 2, "neighbors": 5},
    "subcenter_arcface": {"centers": 2},
    "soft_triple": {"centers": 2},
}


class Counted(TorchDispatchMode):
    """Numbers written and products multiplied; the largest tensor that is neither class vectors nor one value each."""

    def __init__(self, *known: int):
        super().__init__()
        self.work, self.largest, self.known = 0, 0, set(known)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        inputs = [t for t in tree_leaves(args) if isinstance(t, torch.Tensor)]
        old = {t.untyped_storage().data_ptr() for t in inputs}
        if "mm" in func.__name__:
            first, second = inputs[-2:]
            self.work += first.numel() * second.shape[-1]
        for t in tree_leaves(out):
            if isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() not in old:
                self.work += t.numel()
                if t.numel() not in self.known:
                    self.largest = max(self.largest, t.numel())
        return out


def degree(law, symbol):
    """The highest power of a symbol in a law such as ``B^2 D + B n``."""
    plain = re.sub(r"\(.*?\)", "", law).split(",")[0]
    powers = re.findall(rf"(?<![A-Za-z]){symbol}(?:\^(\d+))?(?![A-Za-z])", plain)
    return max([0, *(int(power or 1) for power in powers)])


def counted(name, size, classes):
    """Work and largest tensor of a step in tiles of 48 x 48."""
    made = loss(name, num_classes=classes, dim=DIM, **FORMS.get(name, {}))
    x = torch.randn(size, DIM, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.arange(size) // 4 % classes
    depth = max([1, *(p.shape[1] for p in made.parameters() if p.ndim == 3)])
    known = (
        {classes * d * e for d in (1, depth) for e in (1, DIM)} | {classes - 1, classes * depth**2}
        if made.learned
        else set()
    )
    with tiles(48, 48), Counted(*known) as count:
        made(x, labels).backward()
    return count.work, count.largest


BY_CLASS = ("proxy", "classification")


SHAPED = {name for name, _ in SHAPES}


@pytest.mark.parametrize(
    "entry",
    [pytest.param(e, id=e.name, marks=() if e.name in SHAPED else pytest.mark.slow) for e in losses],
)
def test_the_law_holds(entry):
    by_class = entry.family in BY_CLASS
    sizes = [128, 256, 1024]
    symbol = "C" if by_class else "B"
    found = [counted(entry.name, 8, n) if by_class else counted(entry.name, n, n // 4) for n in sizes]
    stated = degree(entry.cost.time, symbol)
    slope = exponent(sizes, [work for work, _ in found])
    assert stated - 0.35 <= slope <= stated + 0.15, f"work grows as {symbol}^{slope:.2f}, stated {entry.cost.time}"
    # beyond the class vectors, their gradient and one value of each class, nothing grows with C
    held = 0 if by_class else degree(entry.cost.memory, symbol)
    growth = exponent(sizes, [largest for _, largest in found])
    assert growth <= held + 0.15, f"the largest tensor grows as {symbol}^{growth:.2f}, stated {entry.cost.memory}"


def test_the_reading_of_a_law():
    assert degree("B^2 D + B^2 log n (smooth: B^3 n), n positives of B", "B") == 2
    assert degree("C K D", "C") == 1
    assert degree("C K D", "B") == 0


class Held(TorchDispatchMode):
    """The most numbers of four bytes that were held at a time by tensors that operations made."""

    def __init__(self):
        super().__init__()
        self.now, self.most, self.known = 0, 0, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in tree_leaves(out):
            storage = t.untyped_storage() if isinstance(t, torch.Tensor) else None
            if storage is not None and storage._cdata not in self.known:
                key, size = storage._cdata, storage.nbytes() / 4
                self.known[key] = weakref.ref(storage, lambda _, key=key, size=size: self.let_go(key, size))
                self.now += size
                self.most = max(self.most, self.now)
        return out

    def let_go(self, key, size):
        del self.known[key]
        self.now -= size


def test_held_numbers_are_counted_until_they_are_let_go():
    with Held() as held:
        first = torch.zeros(1000)
        second = first + 1
        del first
        third = second.view(10, 100) * 2
        del second
    assert (held.most, held.now) == (2000, third.numel())


# Numbers of four bytes held at a time under backward: for each tuple, entry of the matrix, and number of a vector.
OF_A_TUPLE, OF_AN_ENTRY, OF_A_VECTOR = 32, 20, 8
CHUNK = 2**14


@pytest.fixture
def small_chunks(monkeypatch):
    """Constant terms of the law made small, so that they do not hide the others."""
    monkeypatch.setattr("similis.objective.terms.pair_products.CHUNK", CHUNK)
    monkeypatch.setattr("similis.objective.selection.STRIP", CHUNK)


def allowed(tuples, size, dim, entries):
    """What the law allows for tuples among ``size`` rows and as many columns."""
    return OF_A_TUPLE * tuples + OF_AN_ENTRY * entries + OF_A_VECTOR * (2 * size * dim + CHUNK)


def held_with(made, size, dim, classes, tuples=None):
    x = torch.randn(size, dim, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.arange(size) % classes
    with Held() as held:
        made(x, labels, tuples=tuples).backward()
    return held.most


TAKING = [entry for entry in losses if entry.accepts]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("context", [dense, lambda: tiles(128, 128)], ids=["dense", "tiles"])
@pytest.mark.parametrize("form", [f"{entry.name}:{form}" for entry in TAKING for form in entry.forms])
def test_memory_follows_the_number_of_tuples_and_not_their_vectors(form, context):
    entry, _, form = losses.get(form.partition(":")[0]), *form.partition(":")[1:]
    size, classes, found = 512, 64, {}
    for number, dim in [(n, d) for n in (4_000, 32_000) for d in (16, 256)]:
        draw = torch.Generator().manual_seed(1)
        anchors = torch.randint(size, (number,), generator=draw)
        near = (anchors + classes * torch.randint(1, size // classes, (number,), generator=draw)) % size
        far = (anchors + torch.randint(1, classes, (number,), generator=draw)) % size
        tuples = Triplets(anchors, near, far) if entry.accepts == "triplets" else Pairs(anchors, near, anchors, far)
        made = loss(entry.name, num_classes=classes, dim=dim, **entry.forms[form])
        entries = size**2 if "B^2" in entry.cost.tuples else 0
        with context():
            found[number, dim] = held_with(made, size, dim, classes, tuples)
        assert found[number, dim] <= allowed(number, size, dim, entries)
    gained = [found[number, 256] - found[number, 16] for number in (4_000, 32_000)]
    assert gained[1] <= 1.5 * gained[0] + OF_A_VECTOR * CHUNK, "vectors cost more with more tuples"


FITTING = [(entry.name, miner.name) for entry in TAKING for miner in miners if miner.returns == entry.accepts]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("name", "miner"), FITTING, ids=lambda value: value)
def test_a_mined_loss_follows_the_matrix_and_its_tuples(name, miner):
    for size, dim in [(n, d) for n in (64, 160) for d in (16, 256)]:
        made = loss(name, num_classes=size // 16, dim=dim, miner=miner)
        held = held_with(made, size, dim, size // 16)
        assert held <= allowed(made.mined.tuples, size, dim, size**2)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("miner", "options"), [("semi_hard_band", {"margin": 1e-5}), ("batch_hard", {"every": True})])
def test_a_miner_follows_the_triplets_it_finds_and_not_all_there_are(miner, options):
    labels = torch.arange(160) // 80  # two classes apart from each other: two million triplets, few of them hard
    x = torch.nn.functional.one_hot(labels) + 0.1 * torch.rand(160, 2, generator=torch.Generator().manual_seed(0))
    unit = torch.nn.functional.normalize(x, dim=1)
    same = labels[:, None] == labels
    with Held() as held:
        found = miners.get(miner).function(unit @ unit.T, same & ~torch.eye(160, dtype=torch.bool), ~same, **options)
    assert held.most <= allowed(found.counts().tuples, 160, 2, 160**2)
