"""The specification of a run: one validated object, from YAML, JSON or the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from similis.registry import losses, unknown
from similis.run.training_spec import Part, TrainingSpec
from similis.training.files import in_one_line
from similis.values import UserError


class DataSpec(Part):
    """Which images, and how they are split."""

    source: str = Field(description="folder, archive, table or the name of a known data set")
    allow_counts: bool = Field(
        default=False, description="accept a known data set whose counts differ from the official ones"
    )
    protocol: Literal["default", "fixed-validation", "cross-validation"] = Field(
        default="fixed-validation", description="how validation classes are chosen; default selects on test and says so"
    )
    validation_share: float = Field(
        default=0.1, gt=0, lt=1, description="share of the training classes, fixed-validation"
    )
    test_share: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="share of classes for test where the data set has no split; 0: every class of any data set trains",
    )
    folds: int = Field(default=10, ge=2, description="number of folds, cross-validation")
    fold: int = Field(default=0, ge=0, description="which fold validates, cross-validation")
    split_seed: int = Field(default=0, description="seed of the class split, apart from the run's seed")
    validation_seed: int | None = Field(
        default=None, description="seed of the validation classes alone; null: split_seed"
    )
    exclude: str | None = Field(default=None, description="CSV file of images that do not train; those that test stay")
    wrong_labels: float = Field(
        default=0.0, ge=0, le=1, description="share of the training labels that are replaced by wrong ones, for studies"
    )


class ModelSpec(Part):
    """The embedder."""

    backbone: str = Field(
        default="tf_efficientnet_lite0", description="a timm name, googlenet, bn_inception, small_conv, identity"
    )
    weights: str | None = Field(
        default="pretrained", description="pretrained, a file, a folder to go on from its model, or null"
    )
    pooling: str | None = Field(
        default=None, description="gap, gmp, gap+gmp, gem, own; null: gap+gmp, and the network's own if dim is null"
    )
    dim: int | None = Field(
        default=512, ge=1, description="embedding size; null for the network's own features, without a head"
    )
    layer_norm: bool = Field(default=False, description="layer norm without parameters before the head")
    freeze_batch_norm: bool = Field(default=True, description="batch norm keeps its statistics and weights")
    head: Literal["trained", "whitening", "pca", "lda", "whitening+trained"] = Field(
        default="trained",
        description="trained by the loss; a closed form of the features, without a loss; or trained from whitening on",
    )
    trains: Literal["all", "head"] = Field(default="all", description="head: features are computed once and cached")
    image_size: int | None = Field(default=None, description="pixels of a side; null for the network's own")
    resize: int | None = Field(default=None, description="short side before the crop; null for the network's own share")
    options: dict[str, int | float | str | bool] = Field(default={}, description="options of our own backbones")

    @property
    def pooled_by(self) -> str:
        """The name of the pooling."""
        return self.pooling or ("gap+gmp" if self.dim is not None and self.head == "trained" else "own")

    @property
    def is_closed_form(self) -> bool:
        """Whether the head is fitted in one pass instead of trained."""
        return "trained" not in self.head

    @property
    def keeps_backbone(self) -> bool:
        """Whether the backbone stays as it is, so that its features are computed once."""
        return self.trains == "head" or self.is_closed_form


class ObjectiveSpec(Part):
    """The loss."""

    loss: str = Field(default="proxy_anchor", description="a registered name")
    preset: str | None = Field(default=None, description="paper, thesis, thesis_tuned")
    options: dict[str, bool | int | float | str | tuple[int, ...] | None] = Field(
        default={}, description="options of the loss"
    )
    miner: str | None = Field(default=None, description="a registered miner; null for the preset's or none")
    memory: int = Field(default=0, ge=0, description="rows of cross-batch memory; 0 for none")
    memory_start: int = Field(default=0, ge=0, description="batches before the memory is used")
    nested_sizes: tuple[int, ...] = Field(default=(), description="leading sizes that are trained too")
    language: str | None = Field(default=None, description="file of a class-similarity matrix; null for none")
    language_weight: float = Field(default=7.5, description="weight of language guidance")


class EvaluationSpec(Part):
    """What is measured at the end."""

    ks: tuple[int, ...] = (1, 2, 4, 8)
    sizes: tuple[int, ...] = Field(default=(), description="R@1 of so many leading coordinates too")
    clustering: bool = Field(default=False, description="NMI, AMI and pair F1 too (extra sklearn)")
    test: bool = Field(default=True, description="open the test split for the finished, selected model")
    untouched: bool = Field(
        default=True, description="measure the network before training too, on the same test images"
    )
    batch_size: int = Field(default=100, ge=1)


class RunSpec(Part):
    """Everything that decides the numbers of a run. Its address covers it whole."""

    data: DataSpec
    model: ModelSpec = ModelSpec()
    objective: ObjectiveSpec = ObjectiveSpec()
    training: TrainingSpec = TrainingSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    seed: int = 0

    @property
    def sampler(self) -> str:
        """The name of the sampler that makes the batches: the one asked for, or the loss's own."""
        own = losses.get(self.objective.loss).sampler if self.training.labelled else "random"
        return self.training.sampler or own

    if not TYPE_CHECKING:  # editors see the fields

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise UserError("; ".join(explain_validation(item) for item in error.errors())) from None

    @model_validator(mode="after")
    def check_sizes(self) -> RunSpec:
        """Check that leading sizes are part of the embedding."""
        beyond = [size for size in self.evaluation.sizes if self.model.dim is None or not 0 < size <= self.model.dim]
        if beyond:
            raise ValueError(f"evaluation.sizes has {beyond[0]}; model.dim is {self.model.dim}: name sizes up to that")
        return self

    @model_validator(mode="after")
    def check_training(self) -> RunSpec:
        """Check what ``trains``, ``interpolate``, ``resolutions`` and ``views`` need of other settings."""
        m, t = self.model, self.training
        if m.keeps_backbone and m.dim is None:
            what = f"model.head is {m.head}" if m.is_closed_form else "model.trains is head"
            raise ValueError(f"{what} and model.dim is null; give the head a size, such as model.dim=512")
        if t.interpolate and m.dim is not None:
            raise ValueError(
                f"training.interpolate needs a pretrained start; a head of {m.dim} starts at random; set model.dim=null"
            )
        if t.resolutions and t.policy != "random-resized":
            raise ValueError(
                f"training.resolutions has {list(t.resolutions)} and the policy is {t.policy}, which crops one size "
                "only; set training.policy=random-resized"
            )
        if (not t.labelled and t.views == 1) or t.batch_size % t.views:
            raise ValueError(
                f"training.views is {t.views} with a batch of {t.batch_size}; images without labels need views=2, "
                "and the batch must be a multiple of the views"
            )
        if t.select == "last" and len(t.interpolate) > 1:
            raise ValueError(
                f"training.interpolate has {len(t.interpolate)} shares and nothing validates; name one share, or set "
                "training.select=best"
            )
        return self


def parse_spec(values: Mapping[str, Any]) -> RunSpec:
    """A specification from plain values; a wrong key raises with the nearest right one."""
    return RunSpec(**values)


def explain_validation(item: Mapping[str, Any]) -> str:
    """One sentence about one wrong value."""
    place = [str(key) for key in item["loc"]]
    name, fields = ".".join(place), spec_fields()
    if item["type"] == "extra_forbidden":
        beside = [key for key in fields if key.split(".")[:-1] == place[:-1]]
        return unknown("key", name, beside, elsewhere=fields)
    if item["type"] == "missing":
        return f"{name} is missing" + ("; `similis train --template yaml` prints one" if name in fields else "")
    if item["type"] == "value_error":
        return f"{item['ctx']['error']}"
    words = f" ({fields[name].description})" if name in fields and fields[name].description else ""
    return f"{name} is {item.get('input')!r}; it {re.sub(r'^[A-Z][a-z]+ (?=should)', '', item['msg'])}{words}"


def spec_fields(model: type[Part] | None = None, way: str = "") -> dict[str, FieldInfo]:
    """Every dotted key of a specification with its field, parts before the keys in them.

    Example:
        >>> spec_fields()["training.epochs"].default
        10
    """
    found: dict[str, FieldInfo] = {}
    for key, field in (model or RunSpec).model_fields.items():
        found[f"{way}{key}"] = field
        if isinstance(field.annotation, type) and issubclass(field.annotation, Part):
            found |= spec_fields(field.annotation, f"{way}{key}.")
    return found


def read_spec(path: str | Path, changes: Mapping[str, Any] | None = None) -> RunSpec:
    """A specification from a YAML or JSON file, with single values changed by dotted keys.

    Example: ``read_spec(Path("run.yaml"), {"objective.options.margin_cos": 0.2})``.
    """
    return parse_spec(replace_values(file_values(Path(path)), changes or {}))


def file_values(
    path: Path,
    *,
    keys: str = "data, model, ...",
    begin: str = "`similis train --template yaml` prints one",
) -> dict[str, Any]:
    """The mapping in a YAML or JSON file.

    Args:
        path: of the file.
        keys: some that it should hold, for the error.
        begin: what to do without such a file, for the error.
    """
    if not path.exists():
        raise UserError(f"there is no file {path}; {begin}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise UserError(f"{path} is not YAML ({in_one_line(error)}); {begin}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} holds {type(values).__name__}; it should be a mapping with {keys}")
    return values


def replace_values(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values with others at dotted keys; the values given stay as they are."""
    out: dict[str, Any] = json.loads(json.dumps(values))
    for dotted, value in changes.items():
        *way, last = dotted.split(".")
        place = out
        for key in way:
            inner = place.setdefault(key, {})
            if not isinstance(inner, dict):
                raise UserError(f"{dotted!r} cannot be set: {key} is {inner!r} and holds no keys of its own")
            place = inner
        place[last] = value
    return out


def change(spec: RunSpec, changes: Mapping[str, Any]) -> RunSpec:
    """A specification with other values at keys like ``training.lr``; they are not validated again."""
    for dotted, value in changes.items():
        part, _, key = dotted.partition(".")
        spec = spec.model_copy(update={part: getattr(spec, part).model_copy(update={key: value})})
    return spec


def schema() -> dict[str, Any]:
    """The JSON schema of a specification, for editors."""
    return RunSpec.model_json_schema()
