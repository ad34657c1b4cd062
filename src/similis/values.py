"""The value types that travel between packages, the errors, and the legend of shapes.

Legend, used in every docstring of the package::

    B  anchors (rows of a batch)      M  references (columns)     D  dimensions
    C  classes                        K  vectors of one class     T  tuples (pairs, triplets)
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from torch import Tensor, device


class SimilisError(Exception):
    """Every error that Similis raises on purpose."""


class UserError(SimilisError, ValueError):
    """An argument cannot be used: the message says what was given, what is allowed, what to do."""


class DivergedError(UserError):
    """Vectors are not finite: the training that made them went astray, and would do so again."""


class DataError(SimilisError, ValueError):
    """Files or tables are not what they should be; the message names them and the remedy."""


class MissingExtraError(SimilisError, ImportError):
    """A part outside the base install is missing; the message names the extra that brings it."""

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(f"{part} is not installed; in your clone of Similis run: pip install -e '.[{extra}]'")
        self.words = (part, extra)

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return type(self), self.words  # so that it comes back from another process as it is


EXTRAS = {
    "PIL": "vision", "fsspec": "vision", "pyarrow": "vision", "timm": "vision", "torchvision": "vision",
    "faiss": "search", "s3fs": "cloud", "huggingface_hub": "hub",
    "jinja2": "study", "markupsafe": "study", "optuna": "study", "scipy": "study",
    "sklearn": "sklearn", "sknetwork": "sklearn",
    "fastapi": "serve", "uvicorn": "serve", "httptools": "serve", "python_multipart": "serve",
    "prometheus_client": "serve", "matplotlib": "plots", "ray": "cluster", "sentence_transformers": "text",
    "onnx": "onnx", "onnxruntime": "onnx", "onnxscript": "onnx",
}  # fmt: skip


def import_extra(module: str, extra: str | None = None) -> Any:
    """Import a module outside the base install when it is used, or raise an error that names the extra.

    Args:
        module: dotted name; its first word is a key of ``EXTRAS``.
        extra: to name instead, where a smaller one brings the module too.

    Example:
        >>> import_extra("scipy.stats").__name__
        'scipy.stats'
    """
    top = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != top:
            raise  # the module is there, but misses something of its own
        raise MissingExtraError(top, extra or EXTRAS[top]) from error


class Counts(NamedTuple):
    """How much a miner found: a run that mines nothing looks like convergence."""

    tuples: int
    anchors: int


class Pairs(NamedTuple):
    """Positive and negative pairs as row numbers of anchors and column numbers of references."""

    positive_anchors: Tensor
    positives: Tensor
    negative_anchors: Tensor
    negatives: Tensor

    def counts(self) -> Counts:
        """Number of pairs, and of distinct anchors among them."""
        return Counts(
            len(self.positives) + len(self.negatives), count_distinct(self.positive_anchors, self.negative_anchors)
        )


class Triplets(NamedTuple):
    """Triplets as row numbers of anchors and column numbers of their references."""

    anchors: Tensor
    positives: Tensor
    negatives: Tensor

    def counts(self) -> Counts:
        """Number of triplets, and of distinct anchors among them."""
        return Counts(len(self.anchors), count_distinct(self.anchors))


def count_distinct(*numbers: Tensor) -> int:
    """How many different row numbers there are; as Python numbers, millions of them would outweigh the loss."""
    return len({row for each in numbers for row in each.cpu().bincount().nonzero()[:, 0].tolist()})


UNPINNED = ("cpu", "mps")  # kinds of devices that share the host's memory


def pin(values: Tensor, where: device) -> Tensor:
    """A tensor of the host, from which a device copies without anybody waiting."""
    return values if where.type in UNPINNED else values.pin_memory()


def send(values: Tensor, where: device) -> Tensor:
    """A tensor of the host on its way to a device; nobody waits where the device has memory of its own."""
    return pin(values, where).to(where, non_blocking=where.type not in UNPINNED)


class Communicator(Protocol):
    """What a package may ask of the other processes; the engine implements it.

    Objectives never import the engine: they receive a communicator, or None when alone. Every process
    must ask the same questions in the same order. Gradients are those of the program as a whole: what
    is differentiated is the sum over all processes of what each of them calls ``backward`` on.
    """

    rank: int
    world: int
    device: device  # where this process computes, and exchanges

    def sum(self, value: Tensor) -> Tensor:
        """The sum of ``value`` over all processes; its gradient reaches every process."""

    def counts(self, rows: int, call: str = "") -> tuple[int, ...]:
        """The number of rows that each process has, in the order of ranks; raises if they name different calls."""

    def gather(self, rows: Tensor, counts: tuple[int, ...]) -> Tensor:
        """The rows of all processes in the order of ranks; the gradient of a row returns to its owner."""

    def broadcast(self, value: Tensor, source: int = 0) -> Tensor:
        """The value of one process, without gradient."""

    def average(self, values: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over all processes, in place and without gradient."""

    def barrier(self) -> None:
        """Return when every process has come here."""


@dataclass(frozen=True)
class Preprocessing:
    """What a network wants done to an image; the model states it, the data apply it."""

    size: int = 224
    resize: int = 256
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    channels: Literal["rgb", "bgr"] = "rgb"
    top: float = 1.0  # value of a white pixel before mean and std: 1, or 255 for BN-Inception
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"


class Batch(NamedTuple):
    """Images (B, 3, H, W) (or ready feature vectors (B, F)), labels (B,), row numbers of the manifest (B,)."""

    images: Tensor
    labels: Tensor
    ids: Tensor


class Embedded(NamedTuple):
    """Vectors (N, D) in the order of the data set, labels (N,), row numbers of the manifest (N,)."""

    vectors: Tensor
    labels: Tensor
    ids: Tensor


class Neighbors(NamedTuple):
    """For each query the gallery rows (Q, K) in falling similarity (Q, K); -1 and -inf where there are none."""

    index: Tensor  # type: ignore[assignment]  # nobody asks a tuple of tensors for its .index()
    similarity: Tensor


OptionValue = bool | int | float | str | tuple[int, ...] | None
Options = Mapping[str, OptionValue]
