"""The result of a run: what was measured, and everything that must stand beside a number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from similis.data.manifest import Manifest
from similis.run.machine import Machine
from similis.run.parts import open_source
from similis.run.spec import RunSpec, parse_spec
from similis.training.files import damage_error
from similis.training.folder import RunFolder
from similis.training.tensors import read_tensors
from similis.values import UserError


@dataclass(frozen=True)
class RunResult:
    """What a finished run says.

    Attributes:
        address: hash of all that decides the numbers, see :mod:`similis.run.address`.
        folder: where its files are.
        spec: the specification.
        epochs: length that was chosen (by validation, or all of them).
        trained_on: ``training classes``, ``training classes without validation`` or ``all classes``.
        selected_on: ``validation``, ``test`` (protocol default) or ``nothing``.
        validation: means of the chosen epoch on the validation classes, empty without them.
        history: validation R@1 after each epoch.
        test: means on the test classes; empty if the split stayed closed.
        whole: clustering figures on the test classes, if asked for.
        excluded: test queries without any match, in no mean.
        facts: data and split fingerprints, weights hash, versions of numbers and code, preprocessing.
        before: the pretrained network before training on the same test images, see :mod:`similis.run.untouched`.
        cost: seconds of offline mining, where the run mines; like every time, it differs from call to call.
    """

    address: str
    folder: Path
    spec: RunSpec
    epochs: int
    trained_on: str
    selected_on: str
    validation: Mapping[str, float]
    history: tuple[float, ...]
    test: Mapping[str, float]
    whole: Mapping[str, float]
    excluded: int
    facts: Mapping[str, Any]
    before: tuple[Mapping[str, Any], ...] = ()
    cost: Mapping[str, float] = field(default_factory=dict)

    def scores(self) -> dict[str, Tensor]:
        """Per-query values of the test classes, with ``labels`` and ``ids``; empty if the split stayed closed."""
        return self.tensors("scores") if self.test else {}

    def embeddings(self) -> dict[str, Tensor]:
        """Vectors of the test images, with ``labels`` and ``ids``; empty if the split stayed closed.

        Paths and class names of the images are in ``embeddings.csv`` beside them.
        """
        return self.tensors("embeddings") if self.test else {}

    def report(self, data: Manifest | None = None, *, photos: bool = True) -> Path:
        """Write ``report.html`` into the run folder: one offline page with the answer, a map, neighbours and classes.

        Args:
            data: that the run was trained on, for the photos; None opens it as the specification names it.
            photos: False leaves them out, for private data, and needs no data at all.
        """
        from similis.run.report import write_report  # Jinja2 and scikit-learn come when a report is drawn

        if not self.test:
            raise UserError("this run has no test split, so a report has nothing to show; train with held-out classes")
        read = None
        if photos and self.facts["preprocessing"] is not None:  # ready vectors have nothing to look at
            read = (data or open_source(self.spec, Machine()).manifest).read_bytes
        sides = {"after": self.scores()}
        if self.before and (self.folder / "before.safetensors").exists():
            sides["before"] = self.tensors("before")
        return write_report(self.folder, self.to_json(), self.embeddings(), sides, read)

    def tensors(self, name: str) -> dict[str, Tensor]:
        """A file of tensors in the run folder."""
        return read_tensors(self.folder / f"{name}.safetensors", f"{self.address}/{name}")[0]

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the folder, which may move."""
        values = asdict(replace(self, spec=None, folder=None))  # type: ignore[arg-type]
        values["spec"] = self.spec.model_dump(mode="json")
        del values["folder"]
        plain: dict[str, Any] = json.loads(json.dumps(values))
        return plain


def read_result(folder: RunFolder, address: str | None = None, spec: RunSpec | None = None) -> RunResult | None:
    """The result in a run folder; None if the run is not done.

    Args:
        folder: of the run.
        address: that it must be of; None for any.
        spec: that it probably has, so that it need not be parsed again.
    """
    values = folder.read("result.json")
    if values is None:
        return None
    try:
        same = spec is not None and spec.model_dump(mode="json") == values["spec"]
        values["spec"] = spec if same else parse_spec(values["spec"])
        values["history"] = tuple(values["history"])
        values["before"] = tuple(values.get("before", ()))
        result = RunResult(folder=folder.path, **values)
    except (KeyError, TypeError, UserError) as error:
        raise damage_error(folder.result, f"not a result of this version: {error}") from error
    if address not in (None, result.address):
        raise damage_error(folder.result, f"it is the result of run {result.address}")
    return result
