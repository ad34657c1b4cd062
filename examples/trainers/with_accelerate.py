"""accelerate on several ranks: torchrun --nproc-per-node 2 examples/trainers/with_accelerate.py"""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import similis

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
labels = torch.arange(40).repeat_interleave(30)  # in place of your data; the last 20 classes are for testing
inputs = torch.cat([torch.randn(40, 8)[labels] + 0.5 * torch.randn(1200, 8), torch.randn(1200, 56)], 1)
train, test = labels < 20, labels >= 20

network = torch.nn.Linear(64, 16)
criterion = similis.loss("proxy_anchor", num_classes=20, dim=16, distributed=True)
optimiser = torch.optim.AdamW([{"params": network.parameters(), "lr": 1e-2}, *criterion.parameter_groups(lr=1e-2)])
sampler = similis.BalancedBatchSampler(labels[train], classes=12, per_class=5)
batches = DataLoader(TensorDataset(inputs[train], labels[train]), batch_sampler=sampler)  # knows its rank: not prepared
network, optimiser = accelerator.prepare(network, optimiser)

for _ in range(20):
    for x, y in batches:
        optimiser.zero_grad()
        accelerator.backward(criterion(network(x.to(accelerator.device)), y))
        optimiser.step()

found = similis.evaluate(network(inputs[test].to(accelerator.device)).detach(), labels[test])
accelerator.print(f"R@1 {100 * found.means['recall@1']:.2f} %")
accelerator.end_training()
