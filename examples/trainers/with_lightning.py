"""Lightning on two ranks: python examples/trainers/with_lightning.py"""

import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import similis

torch.manual_seed(0)
labels = torch.arange(40).repeat_interleave(30)  # in place of your data; the last 20 classes are for testing
inputs = torch.cat([torch.randn(40, 8)[labels] + 0.5 * torch.randn(1200, 8), torch.randn(1200, 56)], 1)
train, test = labels < 20, labels >= 20


class Metric(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = torch.nn.Linear(64, 16)
        self.criterion = similis.loss("proxy_anchor", num_classes=20, dim=16, distributed=True)

    def train_dataloader(self):
        sampler = similis.BalancedBatchSampler(labels[train], classes=12, per_class=5)
        return DataLoader(TensorDataset(inputs[train], labels[train]), batch_sampler=sampler)

    def training_step(self, batch, _):
        return self.criterion(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW([{"params": self.network.parameters()}, *self.criterion.parameter_groups(1e-2)], 1e-2)


ranks = {"accelerator": "cpu", "devices": int((sys.argv[1:] or [2])[0]), "strategy": "ddp"}
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
trainer = lightning.Trainer(max_epochs=20, use_distributed_sampler=False, **ranks, **quiet)
trainer.fit(model := Metric())
if trainer.is_global_zero:
    print(f"R@1 {100 * similis.evaluate(model.network(inputs[test]).detach(), labels[test]).means['recall@1']:.2f} %")
