"""What the report of a run shows, as plain values: photos, neighbours, confused classes, similarities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.figures.embedding_map import lay_out
from similis.retrieval.pair_similarities import labelled_pairs
from similis.values import Embedded

MOST = 1000  # photos in one file
SHOWN_NEIGHBORS, KEPT_NEIGHBORS = 8, 3  # on the screen, and those whose photos a sample takes along
PAIRS = 20  # of classes
BINS, COMPARED = 200, 4000  # of similarities from -1 to 1; photos whose pairs are counted


class Answers(NamedTuple):
    """The answers of one network: queries (Q,) as rows of the data, whether right (Q,), neighbours (Q, K)."""

    queries: list[int]
    right: list[float]
    neighbors: list[list[int]]
    similarity: list[list[float]]

    @classmethod
    def of(cls, kept: Mapping[str, Tensor]) -> Answers:
        """From ``scores.safetensors`` or ``before.safetensors``."""
        queries = kept["queries"] if "queries" in kept else kept["ids"]
        near, alike = (kept[name][:, :SHOWN_NEIGHBORS] for name in ("neighbors", "similarity"))
        counts = (alike > float("-inf")).sum(dim=1).tolist()  # places without a neighbour come last
        parts = ([line[:n] for line, n in zip(part.tolist(), counts, strict=True)] for part in (near, alike))
        return cls(queries.tolist(), kept["recall@1"].tolist(), *parts)


class Named(NamedTuple):
    """Path and class of each test photo, by row of the data."""

    paths: Mapping[int, str]
    classes: Mapping[int, int]
    names: Sequence[str]

    @classmethod
    def of(cls, table: Iterable[Mapping[str, str]]) -> Named:
        """From the rows of ``embeddings.csv``."""
        rows = {int(line["row"]): (line["path"], line["class_name"]) for line in table}
        names = sorted({name for _, name in rows.values()})
        number = {name: index for index, name in enumerate(names)}
        return cls(
            {row: path for row, (path, _) in rows.items()},
            {row: number[name] for row, (_, name) in rows.items()},
            names,
        )


def collect(
    embeddings: Mapping[str, Tensor], sides: Mapping[str, Mapping[str, Tensor]], named: Named
) -> dict[str, Any]:
    """The data of the page, and ``rows``: the photos that it shows, as rows of the data.

    Args:
        embeddings: of the trained network: ``vectors``, ``labels``, ``ids``.
        sides: ``after``, and ``before`` where it is known -> its answers, and for ``before`` its vectors.
        named: the test photos.
    """
    order = [side for side in ("before", "after") if side in sides]  # the map after training begins at the one before
    answers = {side: Answers.of(sides[side]) for side in order}
    pairs = confused_pairs(answers, named)
    rows = choose_photos(answers, [row for pair in pairs for row in pair["photos"]], named)
    number = {row: index for index, row in enumerate(rows)}
    for pair in pairs:
        pair |= {"photos": [number[row] for row in pair["photos"]], "query": number[pair["query"]]}
    vectors = {side: (sides[side] if side == "before" else embeddings)["vectors"].float() for side in order}
    place = {row: index for index, row in enumerate(embeddings["ids"].tolist())}
    shown = torch.tensor([place[row] for row in rows])
    points: dict[str, Any] = {}
    for side, found in vectors.items():
        points[side] = lay_out(found[shown], start=next(iter(points.values()), None))
    return {
        "rows": rows,
        "photos": [[named.classes[row], named.paths[row]] for row in rows],
        "classes": list(named.names),
        "total": len(named.paths),
        "map": {side: [[round(each, 2) for each in point] for point in found] for side, found in points.items()},
        **{f"answers {side}": number_answers(found, number, named) for side, found in answers.items()},
        "pairs": pairs,
        "rates": class_rates(answers, named),
        "similarities": {side: count_similarities(found, embeddings["labels"]) for side, found in vectors.items()},
    }


def choose_photos(answers: Mapping[str, Answers], first: Iterable[int], named: Named) -> list[int]:
    """All photos, or a sample: queries drawn evenly, each with its nearest neighbours, after the ``first``."""
    if len(named.paths) <= MOST:
        return sorted(named.paths)
    chosen = dict.fromkeys(first)
    queries = answers["after"].queries
    for place in torch.randperm(len(queries), generator=torch.Generator().manual_seed(0)).tolist():
        near = [row for side in answers.values() for row in side.neighbors[place][:KEPT_NEIGHBORS]]
        more = dict.fromkeys([queries[place], *near])
        if len(chosen | more) > MOST:
            break
        chosen |= more
    return sorted(chosen)


def number_answers(found: Answers, number: Mapping[int, int], named: Named) -> list[Any]:
    """For each photo: whether its first answer is right, its neighbours, similarities in thousandths; None if no query.

    A neighbour is the number of a photo, or -1 - its class where the file does not hold its photo.
    """
    lines: list[Any] = [None] * len(number)
    for query, right, near, alike in zip(*found, strict=True):
        if query in number:
            shown = [number.get(row, -1 - named.classes[row]) for row in near]
            lines[number[query]] = [None if isnan(right) else int(right), shown, [round(1000 * s) for s in alike]]
    return lines


def confused_pairs(answers: Mapping[str, Answers], named: Named) -> list[dict[str, Any]]:
    """Pairs of classes whose photos are most often each other's nearest neighbour, with an example of each."""
    counts: dict[str, Counter[tuple[int, int]]] = {}
    examples: dict[tuple[int, int], dict[str, Any]] = {}
    for side, found in answers.items():
        counts[side] = Counter()
        for query, near in zip(found.queries, found.neighbors, strict=True):
            key = tuple(sorted({named.classes[row] for row in (query, *near[:1])}))
            if len(key) == 2:
                counts[side][key] += 1
                if side == "after":
                    photos = sorted((query, near[0]), key=lambda row: named.classes[row])
                    examples.setdefault(key, {"photos": photos, "query": query})
    return [
        {"classes": list(key), **examples[key], **{side: counts[side][key] for side in answers}}
        for key, _ in sorted(counts["after"].items(), key=lambda each: (-each[1], each[0]))[:PAIRS]
    ]


def class_rates(answers: Mapping[str, Answers], named: Named) -> list[list[int]]:
    """For each class: its number, its queries, and how many are right, before where that is known, and after."""
    asked: Counter[int] = Counter()
    right: dict[str, Counter[int]] = {side: Counter() for side in answers}
    for side, found in answers.items():
        for query, value in zip(found.queries, found.right, strict=True):
            right[side][named.classes[query]] += value == 1
            asked[named.classes[query]] += side == "after" and not isnan(value)
    return [[label, count, *(right[side][label] for side in right)] for label, count in sorted(asked.items())]


def count_similarities(vectors: Tensor, labels: Tensor) -> dict[str, list[int]]:
    """Histograms of the similarities of pairs of one class and of different classes, over photos drawn evenly."""
    rows = torch.linspace(0, len(vectors) - 1, min(COMPARED, len(vectors))).round().long()
    counts = torch.zeros(2 * BINS, dtype=torch.long)
    for tile in labelled_pairs(Embedded(vectors[rows], labels[rows], rows)):
        cell = ((tile.similarity + 1) / 2 * BINS).long().clamp(0, BINS - 1)
        counts += torch.bincount(cell + BINS * (tile.first == tile.second), minlength=2 * BINS)
    return {"different": counts[:BINS].tolist(), "same": counts[BINS:].tolist()}
