"""The training part of a specification: optimiser, schedule, batches, length."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """A part of the specification: immutable, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MiningSpec(Part):
    """Offline mining: what the batches of the sampler ``mined`` are made from, over all training images."""

    kind: Literal["hard", "semi_hard", "neighbours"] = Field(
        default="hard",
        description="hard: farthest positive, nearest negatives; semi_hard: a random positive, the nearest negatives "
        "that are farther than it; neighbours: random positives in each epoch, the nearest negatives of either end",
    )
    every_epochs: int = Field(default=1, ge=1, description="epochs from one mining to the next")
    top_k: int | None = Field(
        default=None, ge=1, description="negatives are drawn among so many; null: 10, and 1 for neighbours"
    )

    @property
    def listed(self) -> int:
        """Length of the lists of negatives."""
        return self.top_k or (1 if self.kind == "neighbours" else 10)


class TrainingSpec(Part):
    """Optimiser, schedule, batches, length."""

    epochs: int = Field(
        default=10, ge=0, description="passes over the training images; 0 evaluates the untrained model"
    )
    batch_size: int = Field(default=100, ge=1)
    sampler: Literal["balanced", "random", "mined"] | None = Field(
        default=None, description="null: what the loss needs; mined: pairs with hard negatives, as mining says"
    )
    resolutions: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(),
        description="pixels of a side through equal parts of the epochs, small ones first; empty: model.image_size "
        "throughout; needs policy=random-resized",
    )
    views: Literal[1, 2] = Field(
        default=1, description="augmentations of each image in a batch; 2 needs the sampler random"
    )
    labelled: bool = Field(
        default=True, description="false: each image is a class of its own and its two views are the positives"
    )
    per_class: int = Field(default=5, ge=1, description="images of a class in a balanced batch")
    mining: MiningSpec = Field(default=MiningSpec(), description="of the sampler mined")
    optimiser: Literal["adamw", "adam", "sgd"] = "adamw"
    lr: float = Field(default=1e-4, gt=0, description="rate of the backbone")
    head_multiplier: float = Field(default=1.0, gt=0, description="rate of the head relative to lr")
    layer_decay: float = Field(
        default=1.0, gt=0, le=1, description="rate of a layer relative to the one above it; 1: all layers learn alike"
    )
    loss_multiplier: float | None = Field(
        default=None, gt=0, description="rate of the loss's parameters; null: the loss's own"
    )
    weight_decay: float = Field(default=1e-4, ge=0)
    eps: float = Field(default=1e-8, gt=0)
    momentum: float = Field(default=0.9, ge=0)
    schedule: Literal["constant", "step", "cosine"] = "constant"
    every_epochs: int = Field(default=10, ge=1, description="of the step schedule")
    gamma: float = Field(default=0.1, gt=0, description="of the step schedule")
    ramp_steps: int = Field(default=0, ge=0, description="steps over which the rate rises from 0")
    frozen_epochs: int = Field(default=0, ge=0, description="epochs in which only head and proxies learn")
    clip_value: float | None = Field(default=10.0, gt=0)
    clip_norm: float | None = Field(default=None, gt=0)
    precision: Literal["float32", "bf16", "fp16"] = Field(
        default="float32", description="of the network: bf16 and fp16 by autocast, fp16 with scaled gradients"
    )
    compile: bool = Field(
        default=False, description="network and loss by torch.compile: another rounding, a minute before the first step"
    )
    chunk: int | None = Field(default=None, ge=1, description="images per forward pass; exact, by gradient caching")
    average_decay: float | None = Field(
        default=None, gt=0, lt=1, description="moving average of the weights, for evaluation"
    )
    interpolate: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(
        default=(),
        description="shares of the trained weights, the rest being those of the start, that validation chooses from; "
        "needs model.dim=null",
    )
    patience: int | None = Field(
        default=None, ge=1, description="stop after so many epochs without a better validation R@1"
    )
    transform: str | None = Field(default=None, description="identity of a transform handed over in Python")
    policy: Literal["resize-crop", "random-resized", "affine", "own"] = Field(
        default="random-resized", description="augmentation; affine turns and shifts a little and never mirrors"
    )
    select: Literal["best", "last"] = Field(
        default="best", description="best: the epoch that validation chooses; last: all epochs, on all training classes"
    )
    refit: bool = Field(
        default=True, description="after fixed validation, train on all training classes for the chosen length"
    )
    checkpoint_steps: int = Field(default=100, ge=1, description="steps between checkpoints")

    @property
    def images_drawn(self) -> int:
        """Images that a sampler draws for a batch, each of which has as many rows in it as views."""
        return self.batch_size // self.views

    def pixels_at(self, epoch: int) -> int | None:
        """Pixels of a side in an epoch, counted from 0; None for the model's own."""
        parts = len(self.resolutions)
        return self.resolutions[min(epoch * parts // max(self.epochs, 1), parts - 1)] if parts else None
