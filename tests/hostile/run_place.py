"""What the attacks on run folders and on disks share: photos, a small run of them, and the commands of a user."""

from pathlib import Path

import yaml

from similis.run.spec import replace_values
from tests.data.pictures import picture, write
from tests.run.small import VALUES

SLIM = {"width": "slim", "depth": 1}


def make_place(root: Path) -> Path:
    """Photos, a specification, and a picture to search with."""
    write(root / "photos", {f"kind{c:02}/{n}.png": picture(10 * c + n) for c in range(12) for n in range(6)})
    values = replace_values(VALUES, {"data.source": str(root / "photos"), "model.options": SLIM})
    (root / "run.yaml").write_text(yaml.safe_dump(values))
    (root / "query.png").write_bytes(picture(999))
    return root


def train(place: Path, runs: Path) -> list[str]:
    return ["train", str(place / "run.yaml"), "--runs", str(runs)]


def search(place: Path, folder: Path) -> list[str]:
    return ["search", str(folder), str(place / "query.png"), "-k", "3", "--sheet", str(place / "found.png")]
