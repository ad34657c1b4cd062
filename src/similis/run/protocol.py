"""The protocol of a run as data: which rows are trained on, in which order, and which rows choose the epoch."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from similis.data.splits import Split
from similis.run.spec import RunSpec


class TrainingStep(NamedTuple):
    """One training of a fresh model.

    Attributes:
        name: ``select`` chooses the number of epochs, ``refit`` trains for the chosen number.
        rows: of the manifest, to train on.
        epochs: at most; a refit after a selection has the selected number instead.
        judged_on: rows whose recall chooses the epoch; without any, the last epoch is chosen.
        opens_test: whether these are the test rows, as in most of the literature.
        trained_on: in words, for the result.
    """

    name: Literal["select", "refit"]
    rows: Tensor
    epochs: int
    judged_on: Tensor
    opens_test: bool = False
    trained_on: str = "training classes"


def training_steps(spec: RunSpec, split: Split) -> tuple[TrainingStep, ...]:
    """The trainings that a specification asks for; none without epochs.

    Args:
        spec: of the run.
        split: rows for training, validation and test.

    Example:
        >>> from similis.run.spec import parse_spec
        >>> spec = parse_spec({"data": {"source": "synthetic"}, "training": {"epochs": 3}})
        >>> split = Split("s", torch.arange(4), torch.arange(4, 6), torch.arange(6, 9), "")
        >>> [(step.name, len(step.rows), len(step.judged_on)) for step in training_steps(spec, split)]
        [('select', 4, 2), ('refit', 6, 0)]
    """
    t, none = spec.training, split.train[:0]
    validated = len(split.validation) > 0
    every = torch.cat([split.train, split.validation]).sort().values
    classes = "training classes" if len(split.test) else "all classes"
    epochs = 0 if spec.model.is_closed_form else t.epochs
    refit = TrainingStep("refit", every, epochs, none, trained_on=classes)
    if not epochs and not spec.model.is_closed_form:
        return ()
    if validated and t.select == "last":  # the length was chosen beforehand: nothing validates
        return (refit,)
    judged_on = split.validation if validated else split.test
    opens_test = not validated and len(judged_on) > 0
    words = "training classes without validation" if validated else refit.trained_on
    select = TrainingStep("select", split.train, epochs, judged_on, opens_test, words)
    return (select, refit) if t.refit and spec.data.protocol == "fixed-validation" else (select,)
