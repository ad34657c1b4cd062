"""A plain loop on several ranks: torchrun --nproc-per-node 2 examples/trainers/plain_ddp.py"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import similis

dist.init_process_group("gloo")  # nccl on graphics cards
torch.manual_seed(0)
labels = torch.arange(40).repeat_interleave(30)  # in place of your data; the last 20 classes are for testing
inputs = torch.cat([torch.randn(40, 8)[labels] + 0.5 * torch.randn(1200, 8), torch.randn(1200, 56)], 1)
train, test = labels < 20, labels >= 20

network = DistributedDataParallel(torch.nn.Linear(64, 16))
criterion = similis.loss("proxy_anchor", num_classes=20, dim=16, distributed=True)
sampler = similis.BalancedBatchSampler(labels[train], classes=12, per_class=5)
batches = DataLoader(TensorDataset(inputs[train], labels[train]), batch_sampler=sampler)
optimiser = torch.optim.AdamW([{"params": network.parameters(), "lr": 1e-2}, *criterion.parameter_groups(lr=1e-2)])

for _ in range(20):
    for x, y in batches:
        optimiser.zero_grad()
        criterion(network(x), y).backward()
        optimiser.step()

rank, world = dist.get_rank(), dist.get_world_size()
with torch.no_grad():
    vectors = network(inputs[test][rank::world])
found = similis.evaluate(vectors, labels[test][rank::world], distributed=True)
if rank == 0:
    print(f"R@1 {100 * found.means['recall@1']:.2f} %, 95 % interval", found.interval("recall@1"))
dist.destroy_process_group()
