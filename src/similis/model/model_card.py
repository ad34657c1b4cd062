"""The model card: what a model was made from, what was measured, and what it is not good for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from similis.retrieval.intervals import mean_interval
from similis.run.result import RunResult
from similis.run.untouched import name_before, training_verdict

NO_RECORD = "## Results\n\nThis model comes without measurements.\n"
NOT_STATED = "not stated"
LIMITS = """## Limits

- Figures and intervals hold for images and classes of the same kind as the test images; on others they are unknown.
- A similarity is not a probability. Choose a threshold on classes that the model was not trained on.
- Error rates that were counted on training classes are too low.
- The model finds what looks similar to it. It has no notion of people, safety or law: do not decide about them by it.
"""


def model_card(model: Any, *, record: str = NO_RECORD, licence: str = NOT_STATED) -> str:
    """The card of a model as Markdown.

    Args:
        model: a :class:`similis.Model`, whose module imports this one.
        record: data, protocol and results, see :func:`run_record`.
        licence: under which the model may be used.
    """
    look, held, chosen = model.embedder.preprocessing, model.gallery.contents(), model.chosen
    sees = "vectors" if look is None else f"images of {look.size} x {look.size} pixels"
    labels = {entry.label for entry in held.entries} - {None}
    facts = [
        ("network", f"{plain(model.spec.backbone)}, from {sees} to {model.embedder.dim} dimensions"),
        ("model hash", f"`{model.model_hash}`"),
        ("gallery", f"{len(held.entries):,} images with {len(labels):,} labels"),
        ("licence", plain(licence)),
    ]
    if chosen is not None:
        words = f"{chosen.value:.4f} (95 % interval {chosen.low:.4f} to {chosen.high:.4f}) for a false accept rate of "
        words += f"{chosen.far:g}, chosen on {len(chosen.classes):,} classes of {plain(chosen.data)}"
        facts.insert(2, ("threshold", words))
    return f"# {plain(model.name)}\n\n{table(('', ''), facts)}\n\n{record}\n{LIMITS}"


def run_record(result: RunResult) -> str:
    """Data, protocol and results of a finished run, as it recorded them."""
    facts, spec = result.facts, result.spec
    parts = [(part, *(f"{number:,}" for number in counts)) for part, counts in count_parts(result).items() if counts[0]]
    steps = [
        ("loss", spec.objective.loss),
        ("epochs", str(result.epochs)),
        ("trained on", result.trained_on),
        ("length chosen on", result.selected_on),
        ("weights before training", plain(Path(spec.model.weights).name) if spec.model.weights else "random"),
        ("seed", str(spec.seed)),
        ("run", f"`{result.address}`"),
    ]
    source = f"{plain(Path(spec.data.source).name)}, sha256 `{facts['data']}`."
    data = f"## Data\n\n{source}\n\n{table(('part', 'images', 'classes'), parts)}\n"
    return f"{data}\n## Protocol\n\n{table(('', ''), steps)}\n\n{results_section(result)}"


def count_parts(result: RunResult) -> dict[str, tuple[int, int]]:
    """Images and classes that the final model was trained on, that chose its length, and that tested it."""
    counts = {
        part: (result.facts["images"][part], result.facts["classes"][part]) for part in ("train", "validation", "test")
    }
    held_out = result.trained_on == "training classes without validation"
    if not result.epochs:
        return {"test": counts["test"]}
    if held_out or not counts["validation"][0]:
        return counts
    both = [a + b for a, b in zip(counts["train"], counts["validation"], strict=True)]
    chose = counts["validation"] if result.selected_on == "validation" else (0, 0)
    return {"train": (both[0], both[1]), "validation, then trained on too": chose, "test": counts["test"]}


def results_section(result: RunResult) -> str:
    """Measured figures beside those of the network before training."""
    if not result.test:
        return "## Results\n\nNo classes were held out, so nothing was measured.\n"
    scores = result.scores()
    span = mean_interval(scores["recall@1"], scores["labels"]) if len(set(scores["labels"].tolist())) > 1 else None
    interval = "" if span is None else f"{100 * span.low:.2f} to {100 * span.high:.2f}"
    rows = [("this model", percent(result.test["recall@1"]), interval, percent(result.test["map@r"]))]
    for row in result.before:
        name = f"{name_before(row)} network" + ("" if row["pixels"] is None else f" at {row['pixels']} pixels")
        rows.append((f"baseline: {name}", percent(row["recall@1"]), "", percent(row["map@r"])))
    words = [f"Test classes, none of them in training; {result.excluded} queries without a match are in no mean."]
    if result.selected_on == "test":
        words.append("The length of training was chosen on the test classes, so these figures are too high.")
    words += [training_verdict(result.before, result.spec.model)] if result.before else []
    heads = ("", "R@1 %", "95 % interval over classes", "MAP@R %")
    return f"## Results\n\n{' '.join(words)}\n\n{table(heads, rows)}\n"


def kept_record(card: Path) -> str:
    """Data, protocol and results of a card that :func:`model_card` wrote before, if it is there."""
    text = card.read_text(encoding="utf-8") if card.exists() else ""
    found = re.search(r"^## .*?(?=^## Limits$)", text, re.MULTILINE | re.DOTALL)
    return found.group().strip() + "\n" if found else NO_RECORD


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def plain(words: str) -> str:
    """Words as one cell of a table; nothing in them is markup or a link."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(str(words).split()))


def percent(share: float) -> str:
    """A share with two digits."""
    return f"{100 * share:.2f}"
