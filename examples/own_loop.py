"""A loss of Similis in a training loop of your own, tested on classes that it has not seen."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

import similis

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--loss", default="proxy_anchor", help="any name of `similis losses`")
asked = parser.parse_args()

# 40 classes of 30 vectors in place of your data; the second half of the classes is for testing
torch.manual_seed(0)
labels = torch.arange(40).repeat_interleave(30)
inputs = torch.cat([torch.randn(40, 8)[labels] + 0.5 * torch.randn(1200, 8), torch.randn(1200, 56)], 1)
train, test = labels < 20, labels >= 20
batches = DataLoader(TensorDataset(inputs[train], labels[train]), batch_size=60, shuffle=True)

network = torch.nn.Linear(64, 16)
criterion = similis.loss(asked.loss, num_classes=20, dim=16)
groups = [{"params": network.parameters(), "lr": 1e-2}, *criterion.parameter_groups(lr=1e-2)]
optimiser = torch.optim.AdamW(groups)  # proxies learn too, at the rate that their paper asks for


def recall() -> float:
    """Recall@1 on the unseen classes: batches are (inputs, labels, ids)."""
    embedded = similis.embed(network, [(inputs[test], labels[test], torch.arange(600))])
    return similis.evaluate(embedded).means["recall@1"]


print(f"before: R@1 {100 * recall():.1f} %")
for _ in range(20):
    for x, y in batches:
        optimiser.zero_grad()
        criterion(network(x), y).backward()
        optimiser.step()
print(f"after twenty epochs of {asked.loss}: R@1 {100 * recall():.1f} %")
