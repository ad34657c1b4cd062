"""Images that training leaves out: a list in a CSV file, as ``similis data check --model`` writes it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import torch

from similis.data.manifest import Manifest
from similis.data.readers.tables import read_columns
from similis.data.splits import Split, split_fingerprint
from similis.values import DataError, UserError

logger = logging.getLogger(__name__)
YES = ("", "yes", "true", "1")


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
    columns = read_columns(str(path))
    if "path" not in columns:
        raise DataError(f"{path} has the columns {list(columns)}; give one with a column 'path'")
    said = columns.get("exclude", ["yes"] * len(columns["path"]))
    return {name for name, word in zip(columns["path"], said, strict=True) if word.strip().lower() in YES}


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
