"""Losses that find their ranks by themselves, where the group takes tensors of the device alone: values and waits."""

from __future__ import annotations

import torch
from torch.nn.parallel import DistributedDataParallel

from similis.objective.ranks import Ranks
from tests.accelerator import emulator
from tests.accelerator.equality import CLASSES, DIM, batch, make
from tests.accelerator.ranks import rank_of_two, run_both
from tests.multiprocess.test_blocks import PAGES, run_page
from tests.proof import forms

COUNTS = (40, 24)
EXCEPTIONS = {"npair:pairs": 1}  # lists of rows that the form makes of labels


def network():
    torch.manual_seed(0)
    return torch.nn.Linear(DIM, DIM)


def work(rank: int, folder: str) -> None:
    with rank_of_two(rank, folder) as communicator:
        torch.save(
            {f"{entry.name}:{form}": step_of(entry, form, rank) for entry, form in forms()}, f"{folder}/{rank}.pt"
        )
        for page in PAGES:
            run_page(communicator, page)


def step_of(entry, form, rank):
    """Value and gradients, and waits outside of the group itself; labels are on the host, as a loader gives them."""
    from tests.accelerator.emulator.counting import count

    x, labels = (part.split(COUNTS)[rank] for part in batch(sum(COUNTS)))
    made = make(entry, form).to(emulator.NAME)
    made.ranks = Ranks(None)
    net = DistributedDataParallel(network().to(emulator.NAME))
    embeddings = net(x.to(emulator.NAME))
    embeddings.sum().backward()  # what DistributedDataParallel sets up at its first step
    net.zero_grad()
    embeddings = net(x.to(emulator.NAME)).detach().requires_grad_()
    with count() as counts:
        made(embeddings, labels.pin_memory()).backward()
    waits = sum(number for line, number in counts.lines.items() if "group.py" not in line)
    made.zero_grad()
    value = made(net(x.to(emulator.NAME)), labels)
    value.backward()
    every = [value, *(p.grad for p in net.parameters()), *(p.grad for p in made.parameters())]
    return [part.detach().cpu() for part in every], waits, str(counts)


def test_two_ranks_equal_one_no_step_waits_for_the_device_and_the_blocks_of_the_pages_run(device, tmp_path):
    run_both(work, str(tmp_path))
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for entry, form in forms():
        name = f"{entry.name}:{form}"
        net, made = network(), make(entry, form, num_classes=CLASSES)
        x, labels = batch(sum(COUNTS))
        value = made(net(x), labels)
        value.backward()
        want = [value.detach(), *(p.grad for p in net.parameters()), *(p.grad for p in made.parameters())]
        for values, waits, said in (each[name] for each in found):
            for got, known in zip(values, want, strict=True):
                scale = max(1.0, float(known.abs().max()))
                assert (got - known).abs().max() <= 2e-5 * scale, name
            assert waits <= EXCEPTIONS.get(name, 0), f"{name}: {said}"
