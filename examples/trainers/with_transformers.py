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


class MetricTrainer(Trainer):
    def get_train_dataloader(self):
        return DataLoader(items, batch_sampler=similis.BalancedBatchSampler(labels[train], classes=12, per_class=5))

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return criterion(model(inputs["x"]), inputs["labels"])


criterion = similis.loss("proxy_anchor", num_classes=20, dim=16, distributed=True)
network = torch.nn.Linear(64, 16)
optimiser = torch.optim.AdamW([{"params": network.parameters(), "lr": 1e-2}, *criterion.parameter_groups(lr=1e-2)])
constant = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda _: 1.0)
arguments = TrainingArguments(
    tempfile.mkdtemp(), num_train_epochs=20, use_cpu=True, ddp_backend="gloo", max_grad_norm=0.0,
    save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
)  # fmt: skip
trainer = MetricTrainer(network, arguments, train_dataset=items, optimizers=(optimiser, constant))
trainer.train()
if trainer.is_world_process_zero():
    print(f"R@1 {100 * similis.evaluate(network(inputs[test]).detach(), labels[test]).means['recall@1']:.2f} %")
