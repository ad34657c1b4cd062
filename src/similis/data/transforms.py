"""Transforms: named policies as data, augmentation as a pure function of (seed, epoch, image id)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from similis.data.images import Interpolation, Pixels, apply_affine, resize
from similis.data.random_draws import counter_generator
from similis.registry import check_known
from similis.values import Preprocessing, UserError

_TRIES = 10
_VIEW = 2**32  # from one view to the next, in counters: more than there are epochs
_DRAWS = 3 + 2 * _TRIES


@dataclass(frozen=True)
class Policy:
    """What is done to an image between decoding and normalisation.

    Attributes:
        crop: ``random`` (a square of the network's size), ``resized`` (a random area, resized), ``turn_square``
            (the central square, turned, scaled and shifted a little), ``centre``, ``own`` (a transform of the user's).
        flip: mirror half of the images.
        keep: short side kept for the crop, as a multiple of ``Preprocessing.resize``; 1 is exact.
        scale: range of the area of a ``resized`` crop, as a share of the image.
        ratio: range of its width to height.
        turn: largest angle of a ``turn_square`` image, in degrees, to either side.
        zoom: largest factor by which it grows or shrinks.
        shift: largest move along each axis, as a share of the side.
    """

    crop: Literal["random", "resized", "turned", "centre", "own"]
    flip: bool
    keep: float = 1.0
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    turn: float = 0.0
    zoom: float = 1.0
    shift: float = 0.0


# An area of 8 % has a side of 0.28: kept at four times the resize, even that crop is not enlarged.
POLICIES = {
    "resize-crop": Policy(crop="random", flip=True),
    "random-resized": Policy(crop="resized", flip=True, keep=4.0),
    # Characters and symbols: mirrored, they are others.
    "affine": Policy(crop="turned", flip=False, turn=10.0, zoom=1.15, shift=0.08),
    "eval": Policy(crop="centre", flip=False),
    "own": Policy(crop="own", flip=False, keep=4.0),
}


def policy_of(name: str) -> Policy:
    """The policy of that name; an unknown name raises an error with the nearest.

    Example:
        >>> policy_of("resize-crop").crop
        'random'
    """
    check_known("transform policy", name, POLICIES)
    return POLICIES[name]


def draws_of(seed: int, epoch: int, image: int, view: int = 0) -> list[float]:
    """Uniform numbers in [0, 1) that belong to one view of an image in one epoch, on any worker and in any order.

    Example:
        >>> draws_of(1, 0, 7) == draws_of(1, 0, 7), draws_of(1, 0, 7) == draws_of(1, 1, 7)
        (True, False)
    """
    return list(counter_generator(seed, image, epoch + view * _VIEW).random(_DRAWS).tolist())


def augment(pixels: Pixels, policy: Policy, preprocessing: Preprocessing, draws: Sequence[float]) -> Pixels:
    """Crop and flip a prepared image, (H, W, 3) -> (S, S, 3), uint8."""
    size = preprocessing.size
    height, width = pixels.shape[:2]
    if policy.crop == "resized":
        top, left, high, wide = random_area(height, width, policy, draws)
        part = resize(pixels[top : top + high, left : left + wide], size, preprocessing.interpolation)
    else:
        if min(height, width) < size:
            raise UserError(f"resize={preprocessing.resize} is below the crop size={size}; resize to at least the crop")
        down, right = height - size, width - size
        random = policy.crop == "random"
        top, left = (place(draws[1], down), place(draws[2], right)) if random else (round(down / 2), round(right / 2))
        part = pixels[top : top + size, left : left + size]
        if policy.crop == "turned":
            part = turn_square(part, policy, preprocessing.interpolation, draws)
    return part[:, ::-1] if policy.flip and draws[0] < 0.5 else part


def turn_square(pixels: Pixels, policy: Policy, interpolation: Interpolation, draws: Sequence[float]) -> Pixels:
    """A square image turned about its centre, scaled and shifted; what comes into view has the border's mean colour."""
    side = len(pixels)
    angle, zoom, across, down = (2.0 * draw - 1.0 for draw in draws[1:5])
    angle, zoom = math.radians(policy.turn) * angle, policy.zoom**zoom
    middle = (side - 1) / 2
    cos, sin = math.cos(angle) / zoom, math.sin(angle) / zoom
    # Where each pixel of the result comes from: PIL asks for the inverse map.
    from_x = middle - across * policy.shift * side - cos * middle + sin * middle
    from_y = middle - down * policy.shift * side - sin * middle - cos * middle
    border = np.concatenate((pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))
    ground = tuple(map(round, (np.add.reduce(border, dtype=np.float64) / len(border)).tolist()))
    return apply_affine(pixels, (cos, -sin, from_x, sin, cos, from_y), ground, interpolation)


def place(draw: float, room: int) -> int:
    """A uniform whole number from 0 to room."""
    return min(int(draw * (room + 1)), room)


def random_area(height: int, width: int, policy: Policy, draws: Sequence[float]) -> tuple[int, int, int, int]:
    """Top, left, height and width of a random area; ten tries, then the largest central one allowed."""
    low, high = policy.scale
    thin, broad = (math.log(bound) for bound in policy.ratio)
    for attempt in range(_TRIES):
        area = height * width * (low + (high - low) * draws[3 + 2 * attempt])
        ratio = math.exp(thin + (broad - thin) * draws[4 + 2 * attempt])
        wide, tall = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < tall <= height:
            return place(draws[1], height - tall), place(draws[2], width - wide), tall, wide
    wide = min(width, round(height * policy.ratio[1]))
    tall = min(height, round(width / policy.ratio[0]))
    return (height - tall) // 2, (width - wide) // 2, tall, wide


@cache
def channel_line(channels: tuple[float, ...], width: int, device: torch.device) -> Tensor:
    """Numbers of the channels repeated along a line of pixels; made once, for a copy to a device is waited for."""
    return torch.tensor(channels, device="cpu").repeat(width).to(device)


def normalise(pixels: Tensor, preprocessing: Preprocessing, *, channels_last: bool = False) -> Tensor:
    """Pixels to what the network wants: channel order, ``top`` for white, minus mean, over std.

    Args:
        pixels: (B, S, S, 3) uint8, RGB.
        preprocessing: the network's wish; mean and std in its own channel order.
        channels_last: memory format of the result.

    Shapes: (B, S, S, 3) -> (B, 3, S, S), float32.

    Example:
        >>> white = torch.full((1, 2, 2, 3), 255, dtype=torch.uint8)
        >>> normalise(white, Preprocessing(mean=(0.5, 0.0, 0.0), std=(0.5, 1.0, 2.0)))[0, :, 0, 0]
        tensor([1.0000, 1.0000, 0.5000])
    """
    batch, height, width, _ = pixels.shape
    order = pixels.flip(-1) if preprocessing.channels == "bgr" else pixels
    # Whole lines of pixels against mean and std repeated along a line: an inner axis of three would be slow.
    values = order.reshape(batch * height, width * 3).to(torch.float32)
    if preprocessing.top != 255.0:
        values = values.div_(255.0)
        if preprocessing.top != 1.0:
            values = values.mul_(preprocessing.top)
    mean, std = (channel_line(part, width, pixels.device) for part in (preprocessing.mean, preprocessing.std))
    values = values.sub_(mean).div_(std).view(batch, height, width, 3).permute(0, 3, 1, 2)
    return values.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
