"""``Model.encode`` against a bare loop: ``python -m benchmarks.encode [--only ROW] [--json FILE]``.

Speed: 400 photos of CARS196 through EfficientNet-lite0 at 160 pixels, as bytes and as files, in batches of 32. The bare
loop decodes with Pillow, resizes, crops, stacks, normalises, and calls the same network in the same memory format.
Time is that of the processor, with one thread. Target: at least 0.95 of the bare speed. ``add``: single new photos into
a gallery of 2,000, against the same loop with batches of one, with the same target. Memory: what the peak of a fresh
process rises by while it encodes 500 and 2,000 photos from a generator; it should grow by no more than the vectors.
``SIMILIS_DATA`` names the folder of photos and weights; the committed record is ``results/encode.json``.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import similis
from benchmarks.lite_weights import weights
from benchmarks.rounds import alternate, arguments, measure_rows, median, median_ratio, peak_memory

PHOTOS, SINGLE, BATCH, SIZE, HELD = 400, 20, 32, 160, 2000
MEMORY = (500, 2000)
ROWS = ("bytes", "files", "add", "memory")


def network() -> similis.Model:
    """EfficientNet-lite0 untouched."""
    return similis.pretrained("tf_efficientnet_lite0", weights=weights(), size=SIZE, device="cpu")


def photos(start: int = 0) -> Iterator[bytes]:
    """Encoded photos, read as they are asked for."""
    data = similis.open_data("cars196", allow_counts=True)
    return (data.read_bytes(row) for row in range(start, len(data)))


def bare(model: similis.Model, items: Sequence[bytes | Path], batch: int) -> Tensor:
    """What one writes by hand for this network."""
    look = model.preprocessing
    assert look is not None
    mean, std = (torch.tensor(part).view(3, 1, 1) for part in (look.mean, look.std))
    found = []
    for start in range(0, len(items), batch):
        pixels = []
        for item in items[start : start + batch]:
            image = Image.open(io.BytesIO(item) if isinstance(item, bytes) else item).convert("RGB")
            short = min(image.size)
            width, height = (look.resize * side // short for side in image.size)
            image = image.resize((width, height), Image.Resampling.BICUBIC)
            left, top = round((width - look.size) / 2), round((height - look.size) / 2)  # as torchvision
            pixels.append(np.asarray(image.crop((left, top, left + look.size, top + look.size))))
        images = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float().div_(255).sub_(mean).div_(std)
        with torch.inference_mode():
            found.append(model.embedder(images.contiguous(memory_format=torch.channels_last)))
    return torch.cat(found)


def compare(sides: dict[str, Callable[[], object]], items: int, rounds: int) -> dict[str, float]:
    """Milliseconds of processor time an item of both sides, and the ratio of their speeds."""
    seconds = alternate(sides, rounds, clock=time.process_time)
    spent = {f"{name}, ms": 1000 * median(seconds[name]) / items for name in ("ours", "bare")}
    return {**spent, "speed ratio": median_ratio(seconds, "bare", "ours")}


def encode_all(items: Sequence[bytes | Path], rounds: int) -> dict[str, float]:
    """Many items at once."""
    model = network()
    torch.testing.assert_close(model.encode(items[:BATCH]), bare(model, items[:BATCH], BATCH), atol=1e-4, rtol=0)
    sides = {"bare": lambda: bare(model, items, BATCH), "ours": lambda: model.encode(items, batch_size=BATCH)}
    return compare(sides, len(items), rounds)


def add_single(rounds: int) -> dict[str, float]:
    """New photos one by one, other ones in every round, for the gallery knows those it has seen."""
    model, left = network(), photos()
    model.add(torch.nn.functional.normalize(torch.randn(HELD, model.dim)), ids=[str(row) for row in range(HELD)])
    drawn = {name: count() for name in ("ours", "bare")}
    turns = [[next(left) for _ in range(SINGLE)] for _ in range(rounds + 1)]

    def ours() -> None:
        for photo in turns[next(drawn["ours"])]:
            model.add(photo)

    sides = {"bare": lambda: bare(model, turns[next(drawn["bare"])], 1), "ours": ours}
    return compare(sides, SINGLE, rounds)


def encode_some(items: int) -> Callable[[], Tensor]:
    """For a process of its own: the model is the base, what encoding needs is the rise."""
    model, left = network(), photos()
    model.encode([next(left) for _ in range(BATCH)])
    return lambda: model.encode(next(left) for _ in range(items))


def memory() -> dict[str, float]:
    """Rise of the peak in MB for each number of items, and the MB of vectors between them."""
    few, many = (peak_memory("benchmarks.encode:encode_some", items) / 1e6 for items in MEMORY)
    vectors = (MEMORY[1] - MEMORY[0]) * network().dim * 4 / 1e6
    rises = dict(zip((f"{items} items, MB" for items in MEMORY), (few, many), strict=True))
    return {**rises, "growth, MB": many - few, "vectors between, MB": vectors}


def measure(row: str, rounds: int) -> dict[str, float]:
    """The figures of one row."""
    if row == "memory":
        return memory()
    if row == "add":
        return add_single(rounds)
    some = [photo for photo, _ in zip(photos(), range(PHOTOS), strict=False)]
    if row == "bytes":
        return encode_all(some, rounds)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.webp" for number in range(PHOTOS)]
        for path, photo in zip(paths, some, strict=True):
            path.write_bytes(photo)
        return encode_all(paths, rounds)


def main() -> None:
    """Measure and write."""
    asked = arguments(__doc__ or "", list(ROWS))
    torch.set_num_threads(1)
    measure_rows("encode", asked, ROWS, lambda row: measure(row, asked.rounds))


if __name__ == "__main__":
    main()
