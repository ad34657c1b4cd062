"""The Trainer of Hugging Face on several ranks: torchrun --nproc-per-node 2 examples/trainers/with_transformers.py"""

import tempfile

import torch
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

import similis

torch.manual_seed(0)
labels = torch.arange(40).repeat_interleave(30)  # in place of your data; the last 20 classes are for testing
inputs = torch.cat([torch.randn(40, 8)[labels] + 0.5 * torch.randn(1200, 8), torch.randn(1200, 56)], 1)
train, test = labels < 20, labels >= 20
items = [{"x": x, "labels": y} for x, y in zip(inputs[train], labels[train], strict=True)]


class Metric(torch.nn.Module):  # with the loss inside: the Trainer zeroes the gradients of its model
    def __init__(self):
        super().__init__()
        self.network = torch.nn.Linear(64, 16)
        self.criterion = similis.loss("proxy_anchor", num_classes=20, dim=16, distributed=True)

    def forward(self, x, labels):
        return {"loss": self.criterion(self.network(x), labels)}


class MetricTrainer(Trainer):
    def get_train_dataloader(self):
        return DataLoader(items, batch_sampler=similis.BalancedBatchSampler(labels[train], classes=12, per_class=5))


model = Metric()
optimiser = torch.optim.AdamW([{"params": model.network.parameters()}, *model.criterion.parameter_groups(1e-2)], 1e-2)
constant = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda _: 1.0)
options = {"num_train_epochs": 20, "max_grad_norm": 0.0, "use_cpu": True, "ddp_backend": "gloo", "save_strategy": "no"}
trainer = MetricTrainer(model, TrainingArguments(tempfile.mkdtemp(), **options), optimizers=(optimiser, constant))
trainer.train()
print(f"R@1 {100 * similis.evaluate(model.network(inputs[test]).detach(), labels[test]).means['recall@1']:.2f} %")
