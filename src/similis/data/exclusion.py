"""Images that training leaves out: a list in a CSV file, as ``similis data check --model`` writes it."""

from __future__ import annotations

import csv
import logging
from dataclasses import replace
from pathlib import Path

import torch

from similis.data.manifest import Manifest
from similis.data.splits import Split, split_fingerprint
from similis.values import DataError, UserError

logger = logging.getLogger(__name__)


def read_exclusions(path: str | Path) -> set[str]:
    r"""Paths of the lines whose column ``exclude`` says yes; of all lines where there is no such column.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        ...     _ = file.write("path,exclude\ncat/1.jpg,yes\ncat/2.jpg,no\n")
        ...     file.flush()
        ...     read_exclusions(file.name)
        {'cat/1.jpg'}
    """
    place = Path(path)
    if not place.is_file():
        raise UserError(
            f"there is no list {place} of images to exclude; write one with: similis data check DATA --model"
        )
    try:
        with place.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{place} is no CSV file ({error}); give one with a column 'path'") from None
    if lines and "path" not in lines[0]:
        raise DataError(f"{place} has the columns {list(lines[0])}; give one with a column 'path'")
    return {line["path"] for line in lines if (line.get("exclude") or "yes").strip().lower() in ("yes", "true", "1")}


def leave_out(manifest: Manifest, split: Split, paths: set[str]) -> Split:
    """The split without these images in training and validation; test images stay, or its numbers would flatter."""
    listed = torch.tensor([path in paths for path in manifest.values("path")])
    unknown = len(paths) - int(listed.sum())
    if unknown > 0:
        raise UserError(
            f"{unknown} of {len(paths)} images to exclude are not in {manifest.name!r}; give the list of this data set"
        )
    train, validation = (rows[~listed[rows]] for rows in (split.train, split.validation))
    left = len(split.train) + len(split.validation) - len(train) - len(validation)
    logger.info("%d images are excluded; %d more of the list test, and stay", left, int(listed[split.test].sum()))
    if not len(train):
        raise UserError(f"the list excludes all {len(split.train)} training images; shorten it")
    changed = split_fingerprint(manifest, [train, validation, split.test])
    return replace(split, train=train, validation=validation, fingerprint=changed)
