"""Splits: which classes train, which validate, which test; disjoint by construction and fingerprinted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from similis.data.manifest import Manifest
from similis.data.random_draws import counter_generator
from similis.data.sampling import Ints, shuffle
from similis.values import DataError, UserError

Protocol = Literal["default", "fixed-validation", "cross-validation"]
PROTOCOLS: tuple[str, ...] = get_args(Protocol)
_TEST_STREAM, _VALIDATION_STREAM = 1, 2  # separate draws: the test classes do not move with the protocol


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of a manifest for training, validation and test, and the hash of that division.

    ``validation`` is empty under the protocol ``default``, which selects on the test classes.
    """

    name: str
    train: Tensor
    validation: Tensor
    test: Tensor
    fingerprint: str


def split_data(
    manifest: Manifest,
    *,
    protocol: Protocol = "fixed-validation",
    seed: int = 0,
    validation_seed: int | None = None,
    validation_share: float = 0.1,
    folds: int = 10,
    fold: int = 0,
    test_share: float = 0.5,
) -> Split:
    """Divide a data set by classes: no class is in two parts.

    Test classes are the official ones where the data set states them; otherwise a random share of the
    classes, drawn by the seed alone, so that every protocol has the same test classes.

    Args:
        manifest: what to divide.
        protocol: ``default`` (all training classes train, nothing validates), ``fixed-validation`` (a random
            share of the training classes validates), ``cross-validation`` (fold number ``fold`` validates).
        seed: of the draws.
        validation_seed: of the validation classes or folds alone; None for ``seed``. The test classes stay.
        validation_share: share of the training classes that validate, at least two classes where there are three.
        folds: number of folds; fold sizes differ by at most one class.
        fold: the fold that validates, 0 to folds - 1.
        test_share: share of all classes that test, where there is no official split; 0 trains on every class, also
            on those that the data set states for test.

    Example:
        >>> from similis.data.open_data import open_data
        >>> split = split_data(open_data("synthetic?classes=20&images=2&size=8"))
        >>> len(split.train), len(split.validation), len(split.test)
        (16, 4, 20)
    """
    labels = manifest.labels.numpy()
    if len(np.unique(labels)) < 2:
        raise DataError(f"all images of {manifest.name!r} are of one class; a metric needs two: add images of others")
    train, test = find_test_classes(manifest, labels, seed, test_share)
    drawn_by = seed if validation_seed is None else validation_seed
    validation = validation_classes(train, protocol, seed=drawn_by, share=validation_share, folds=folds, fold=fold)
    rest = np.setdiff1d(train, validation)
    if not len(rest):
        raise DataError(
            f"too few classes to train on ({len(train)}) for the protocol {protocol}, which keeps some of them to "
            "validate: add classes, or choose the protocol default"
        )
    parts = [torch.from_numpy(np.flatnonzero(np.isin(labels, part))) for part in (rest, validation, test)]
    name = f"{protocol}-{fold + 1}-of-{folds}" if protocol == "cross-validation" else protocol
    return Split(name, parts[0], parts[1], parts[2], split_fingerprint(manifest, parts))


def find_test_classes(manifest: Manifest, labels: Ints, seed: int, share: float) -> tuple[Ints, Ints]:
    """Training and test classes: official if stated, otherwise drawn."""
    if manifest.has("split") and share:  # without a share nothing is held out
        is_test = np.array([part == "test" for part in manifest.values("split")])
        train, test = np.unique(labels[~is_test]), np.unique(labels[is_test])
        shared = np.intersect1d(train, test)
        if len(shared):
            raise DataError(
                f"{len(shared)} classes of {manifest.name!r} are in train and in test (first: label {shared[0]}); "
                f"a metric is tested on unseen classes: {overlap_remedy(manifest)}"
            )
        return train, test
    if not 0.0 <= share < 1.0:
        raise UserError(f"test_share is a share of the classes, at least 0 and below 1; given {share}")
    classes = shuffle(np.unique(labels), counter_generator(seed, _TEST_STREAM))
    number = min(max(round(share * len(classes)), 1 if share else 0), len(classes) - 1)
    return np.sort(classes[number:]), np.sort(classes[:number])


def overlap_remedy(manifest: Manifest) -> str:
    """What to do when classes are in train and in test."""
    if manifest.empty_folders is None:
        return "drop the column 'split' to have the classes divided by a seed, or give each class one part"
    return "merge the folders train and test to have the classes divided by a seed, or keep each class in one of them"


def validation_classes(train: Ints, protocol: Protocol, *, seed: int, share: float, folds: int, fold: int) -> Ints:
    """The training classes that validate under a protocol."""
    if protocol not in PROTOCOLS:
        raise UserError(f"unknown protocol {protocol!r}; known: {', '.join(PROTOCOLS)}")
    if protocol == "default":
        return train[:0]
    order = shuffle(train, counter_generator(seed, _VALIDATION_STREAM))
    if protocol == "fixed-validation":
        if not 0.0 < share < 1.0:
            raise UserError(f"validation_share lies between 0 and 1; given {share}")
        # among images of one class every neighbour is right, so one class could not choose anything
        return np.sort(order[: max(1, round(share * len(train)), min(2, len(train) - 1))])
    if not 2 <= folds <= len(train) or not 0 <= fold < folds:
        raise UserError(
            f"{len(train)} training classes allow 2 to {len(train)} folds, fold 0 to folds - 1; given {folds}, {fold}"
        )
    return np.sort(np.array_split(order, folds)[fold])


def split_fingerprint(manifest: Manifest, parts: list[Tensor]) -> str:
    """Hash of the data's fingerprint and of the ids in every part."""
    digest = hashlib.sha256(manifest.fingerprint().encode())
    ids = manifest.ids
    for part in parts:
        digest.update(b"|" + np.ascontiguousarray(ids[part].numpy().astype("<i8")).tobytes())
    return digest.hexdigest()
