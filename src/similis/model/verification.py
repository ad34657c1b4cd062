"""Verification by the model of a finished run, and the threshold that is kept with it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from pydantic import FiniteFloat, TypeAdapter, ValidationError

from similis.data.manifest import Manifest, from_columns
from similis.data.open_data import open_data
from similis.data.splits import split_data
from similis.model.bundle_files import THRESHOLD
from similis.model.encoding import Encoder
from similis.model.finished import trained_model
from similis.retrieval.gallery import Contents, entries_of
from similis.retrieval.verification import Verification, verify
from similis.run.machine import Machine
from similis.run.result import RunResult
from similis.run.trained_on import read_trained_on
from similis.training.files import damage_error
from similis.training.folder import RunFolder
from similis.values import DataError, Pairs, UserError

PAIR_COLUMNS = 3


@dataclass(frozen=True)
class Threshold:
    """A threshold with what it was chosen for and on.

    Attributes:
        far: false accept rate that it keeps on the classes below.
        value: similarities at or above it are accepted.
        low, high: its interval for other classes of the same population.
        classes: names of the classes it was chosen on.
        data: name of the data set.
        fingerprint: of the data set.
    """

    far: float
    value: FiniteFloat
    low: float
    high: float
    classes: tuple[str, ...]
    data: str
    fingerprint: str


@dataclass(frozen=True, eq=False)
class Photos:
    """Images to verify: their manifest, and the listed pairs with labels of their own, or None for all pairs."""

    manifest: Manifest
    pairs: Pairs | None = None


def threshold_of(found: Verification, classes: Sequence[str], data: str, fingerprint: str = "") -> Threshold:
    """The threshold of a verification's operating point, with the names of its classes and of its data."""
    chosen = found.threshold[found.far]
    return Threshold(found.far, *chosen, tuple(classes), data, fingerprint)


def gallery_threshold(held: Contents, far: float) -> float:
    """The threshold of a false accept rate on the labelled images of a gallery."""
    vectors, labels, names = held.labelled_vectors()
    if len(names) < 2:
        raise UserError(
            f"no threshold for a false accept rate of {far:g} was chosen, and the gallery has {len(names)} "
            "labels to choose it on; add images of two classes or more, or call: similis verify RUN DATA"
        )
    return verify(vectors, labels, far=far).threshold[far].value


def verify_run(
    result: RunResult, source: str, far: float, machine: Machine, *, keep_trained: bool = False
) -> tuple[Threshold, Verification]:
    """Verify the model of a finished run on a data set or a file of pairs, and keep the threshold in its folder.

    Of a data set that states a split, and of the run's own data, the test classes are used. A column ``group``
    (camera, session) leaves pairs within one group out.

    Args:
        result: the run.
        source: data that :func:`similis.data.open_data.open_data` understands, or a CSV file of pairs: path, path,
            1 for the same class or 0, with paths relative to the file.
        far: false accept rate of the operating point.
        machine: device, workers, data root.
        keep_trained: use classes that trained the model, too; the threshold then says so.
    """
    photos, number = leave_trained_out(open_photos(source, result, machine), result, keep_trained)
    manifest = photos.manifest
    vectors = Encoder(trained_model(result, machine), machine).encode(manifest, result.spec.evaluation.batch_size)
    groups = manifest.numbers("group") if manifest.has("group") else None
    found = verify(vectors, manifest.labels, far=far, groups=groups, pairs=photos.pairs)
    data = f"{manifest.name}{say_seen(number, keep_trained)}"
    threshold = threshold_of(found, used_classes(photos), data, manifest.fingerprint())
    write_threshold(result.folder, threshold)
    return threshold, found


def open_photos(source: str, result: RunResult, machine: Machine) -> Photos:
    """The test classes of a data set, or the images of a file of pairs."""
    path = Path(source)
    if path.suffix == ".csv" and path.is_file():
        rows = read_pairs(path)
        if rows:
            return pair_photos(path, rows)
    data = result.spec.data
    manifest = open_data(source, root=machine.data_root, allow_counts=True)
    if source == data.source or manifest.fingerprint() == result.facts.get("data"):  # moved, or by another path
        split = split_data(manifest, protocol="default", seed=data.split_seed, test_share=data.test_share)
        if not len(split.test):
            raise UserError(f"{result.folder} has trained on every class of {source}; verify it on other photos")
        opened = {"stage": "test", "step": 0, "opened": "test split", "images": len(split.test), "by": "verify"}
        RunFolder(result.folder).log(opened)
        return Photos(manifest.select(split.test))
    test = [row for row, part in enumerate(manifest.parts) if part == "test"]
    return Photos(manifest.select(test) if test else manifest)


def leave_trained_out(photos: Photos, result: RunResult, keep: bool) -> tuple[Photos, int]:
    """Photos without the classes that trained the run's model, or all of them, and the number of these classes."""
    trained, manifest = read_trained_on(result.folder), photos.manifest
    if trained is None:
        return photos, 0
    seen = trained.seen(entries_of(manifest))
    if keep or not any(seen.images):
        return photos, len(seen.classes)
    unseen = ~torch.tensor(seen.images)
    check_left(int(unseen.sum()), len(seen.classes), repr(manifest.name))
    if photos.pairs is None:
        return Photos(manifest.select(unseen.nonzero().flatten())), len(seen.classes)
    p = photos.pairs
    genuine, impostors = (unseen[a] & unseen[b] for a, b in ((p[0], p[1]), (p[2], p[3])))
    check_left(int(genuine.sum()) and int(impostors.sum()), len(seen.classes), repr(manifest.name))
    return Photos(manifest, Pairs(p[0][genuine], p[1][genuine], p[2][impostors], p[3][impostors])), len(seen.classes)


def used_classes(photos: Photos) -> list[str]:
    """Names of the classes whose images are compared."""
    rows = torch.arange(len(photos.manifest)) if photos.pairs is None else torch.cat(list(photos.pairs))
    return list(photos.manifest.classes(rows).values())


def read_pairs(path: Path) -> list[tuple[str, str, bool]]:
    """Rows of a file of pairs, with or without a header; none if the file is a table of images."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    if rows and len(rows[0]) == PAIR_COLUMNS and rows[0][2] not in ("0", "1"):
        rows = rows[1:]  # a header
    if not rows or any(len(row) != PAIR_COLUMNS or row[2] not in ("0", "1") for row in rows):
        return []
    return [(a, b, same == "1") for a, b, same in rows]


def pair_photos(path: Path, rows: Sequence[tuple[str, str, bool]]) -> Photos:
    """Images of listed pairs; those linked by genuine pairs are one class."""
    names = list(dict.fromkeys(name for a, b, _ in rows for name in (a, b)))
    missing = [name for name in names if not (path.parent / name).is_file()]
    if missing:
        raise DataError(f"{path}: {len(missing)} images are not there, first {missing[0]!r}; paths start at the file")
    number = {name: place for place, name in enumerate(names)}
    ends, same = torch.tensor([(number[a], number[b]) for a, b, _ in rows]), torch.tensor([row[2] for row in rows])
    label = connected_components(ends[same].tolist(), len(names))
    wrong = next(((names[a], names[b]) for a, b in ends[~same].tolist() if label[a] == label[b]), None)
    if wrong:
        raise DataError(f"{path}: {wrong[0]!r} and {wrong[1]!r} are stated as different, but genuine pairs link them")
    manifest = from_columns(
        path.name,
        {
            "path": names,
            "label": label,
            "class_name": [names[first] for first in label],
            "bytes": [(path.parent / name).read_bytes() for name in names],
        },
    )
    return Photos(manifest.with_content(), Pairs(*ends[same].T, *ends[~same].T))


def connected_components(links: Sequence[tuple[int, int]], count: int) -> list[int]:
    """For each of ``count`` things the smallest that it is linked with, directly or in turn.

    Example:
        >>> connected_components([(1, 3), (3, 4)], 5)
        [0, 1, 2, 1, 1]
    """
    label = torch.arange(count)
    for a, b in links:
        low, high = sorted((int(label[a]), int(label[b])))
        label[label == high] = low
    return label.tolist()


def write_threshold(folder: Path, threshold: Threshold) -> None:
    """Keep a threshold with a run; a later one replaces it."""
    RunFolder(folder).write(THRESHOLD, asdict(threshold))


def read_threshold(folder: Path) -> Threshold | None:
    """The threshold that was chosen for a run or a saved model; None if there is none."""
    values = RunFolder(folder).read(THRESHOLD)
    if values is None:
        return None
    try:
        return TypeAdapter(Threshold).validate_python(values)
    except ValidationError as error:
        raise damage_error(folder / THRESHOLD, f"not a threshold of this version: {error}") from error


def say_seen(number: int, kept: bool) -> str:
    """How a table says that classes trained the model; nothing for none."""
    if not number:
        return ""
    words = "1 class that trained the model is" if number == 1 else f"{number:,} classes that trained the model are"
    return f"; {words} {'among them, so figures are too good' if kept else 'left out (--keep-trained keeps them)'}"


def check_left(left: int, number: int, what: str) -> None:
    """Raise where the classes that trained a model are all that there is."""
    if number and not left:
        raise DataError(
            f"all {number} classes of {what} trained the model, so they say nothing about unseen ones; give other "
            "photos, or measure these with --keep-trained"
        )
