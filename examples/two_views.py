"""Labels as strings, and no labels at all, where the two views of an image are its only positives."""

import torch

import similis

torch.manual_seed(0)
kinds = torch.arange(40).repeat_interleave(30)
inputs = torch.cat([torch.randn(40, 8)[kinds] + 0.5 * torch.randn(1200, 8), torch.randn(1200, 56)], 1)
names = [f"kind {number:02d}" for number in kinds.tolist()]


def view(x: torch.Tensor) -> torch.Tensor:
    """What an augmentation does: the last 56 numbers change from view to view, the first 8 hardly."""
    return torch.cat([x[:, :8] + 0.2 * torch.randn(len(x), 8), torch.randn(len(x), 56)], 1)


def recall(network: torch.nn.Module) -> float:
    """Recall@1 on the second half of the classes, which no training has seen."""
    return 100 * similis.evaluate(network(inputs[600:]).detach(), names[600:]).means["recall@1"]


for title in ("labels as strings", "two views, no labels"):
    network, criterion = torch.nn.Linear(64, 16), similis.loss("nt_xent", temperature=0.1)
    optimiser, before = torch.optim.AdamW(network.parameters(), lr=1e-2), recall(network)
    for _ in range(150):
        rows = torch.randint(600, (60,))
        if title == "labels as strings":
            value = criterion(network(inputs[rows]), [names[row] for row in rows])
        else:
            x = torch.cat([view(inputs[rows]), view(inputs[rows])])
            value = criterion(network(x), torch.arange(60).repeat(2))  # each image is a class of its own
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
    print(f"{title}: R@1 on unseen classes {before:.1f} % before, {recall(network):.1f} % after")
