"""Both sides of every line of the page for users of pytorch-metric-learning give the same values and gradients."""

import re
from functools import partial

import pytest
import torch

import similis
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "coming-from-pytorch-metric-learning.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\| `(losses\..+?)` \| `(similis\.loss\(.+?)` \|$", PAGE, re.M)
C, D = 6, 8


def peer_of(text):
    """The peer's loss and, where the line names one, its miner."""
    from pytorch_metric_learning import distances, losses, miners

    made = eval(text, {"losses": losses, "distances": distances, "miners": miners, "C": C, "D": D})
    loss, miner = made if isinstance(made, tuple) else (made, None)
    return loss.double(), miner


def peer_weights(loss):
    """What the peer's loss learns, and how its shape becomes ours."""
    for name in ("W", "fc", "proxies", "beta"):
        if isinstance(getattr(loss, name, None), torch.nn.Parameter):
            value = getattr(loss, name)
            return value, value.T if name in ("W", "fc") else value
    return None, None


@pytest.mark.parametrize(("theirs", "ours"), LINES)
def test_both_give_the_same(theirs, ours):
    torch.manual_seed(0)
    peer, miner = peer_of(theirs)
    criterion = eval(ours, {"similis": similis, "partial": partial, "C": C, "D": D}).double()
    labels = torch.arange(24) % C if "NPairs" not in theirs else torch.arange(12) // 2
    start = torch.randn(len(labels), D, dtype=torch.float64)
    weights, as_ours = peer_weights(peer)
    if weights is not None:
        weights.data = weights.data.double() if weights.ndim < 2 else torch.randn_like(weights, dtype=torch.float64)
        (learned,) = criterion.learned.values()
        learned.data = peer_weights(peer)[1].detach().reshape(learned.shape).clone()
    found = []
    for call in (lambda x: peer(x, labels, miner(x, labels) if miner else None), lambda x: criterion(x, labels)):
        x = start.clone().requires_grad_()
        value = call(x)
        value.backward()
        found.append((value.detach(), x.grad))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(found[1][1], found[0][1], rtol=1e-6, atol=1e-7)
    if weights is not None:
        gradient = weights.grad.T if weights is not as_ours else weights.grad
        torch.testing.assert_close(learned.grad.reshape(gradient.shape), gradient, rtol=1e-6, atol=1e-7)


def test_a_memory_gives_the_same_values_until_it_is_full():
    ((theirs, ours),) = re.findall(
        r"^\| `(losses\.CrossBatchMemory\(.+?)` \| `(similis\.CrossBatchMemory\(.+?)` \|$", PAGE, re.M
    )
    theirs, ours = theirs.replace("1024", "72"), ours.replace("1024", "72")  # full after three batches of 24
    peer, criterion = (peer_of(theirs)[0], eval(ours, {"similis": similis}).double())
    torch.manual_seed(0)
    found = []
    for _ in range(4):
        x, labels = torch.randn(24, D, dtype=torch.float64), torch.arange(24) % C
        found.append((criterion(x, labels), peer(x, labels)))
    for one, other in found[:3]:
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    assert not torch.isclose(*found[3])  # theirs has overwritten a batch


def test_the_page_names_every_loss_of_the_peer():
    from pytorch_metric_learning import losses

    assert len(LINES) == 24
    theirs = {name for name in dir(losses) if name.endswith("Loss")} - {"GenericPairLoss", "SelfSupervisedLoss"}
    named = set(re.findall(r"\w+Loss\b", PAGE))
    assert theirs - named == set()
    assert {name for name in named if not hasattr(losses, name)} == set()
