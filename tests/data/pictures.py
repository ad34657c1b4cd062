"""Small image files for the tests of the data room."""

import io
import os
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image


def picture(seed: int, width: int = 20, height: int = 14, form: str = "PNG", **save) -> bytes:
    """A picture of random colours in a 4 x 3 grid, enlarged smoothly; encoded."""
    grid = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    image = Image.fromarray(grid).resize((width, height), Image.Resampling.BICUBIC)
    held = io.BytesIO()
    image.save(held, form, **save)
    return held.getvalue()


def write(root: Path, files: dict[str, bytes]) -> Path:
    """Write files below a folder."""
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def write_zip(place: Path, files: dict[str, bytes]) -> str:
    """Write files into an archive."""
    with ZipFile(place, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return str(place)


def photos(name: str) -> str:
    """The folder of the real photos, if it holds this data set; otherwise the test is skipped with the reason."""
    root = os.environ.get("SIMILIS_DATA")
    if not root:
        pytest.skip("SIMILIS_DATA is not set: no real photos here")
    if not (Path(root) / f"{name}.zip").exists():
        pytest.skip(f"SIMILIS_DATA has no {name}.zip")
    return root
