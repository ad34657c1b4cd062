"""The wheel with the base dependencies only: it imports, and every loss runs forward and backward.

A fresh virtual environment sees torch and the few base packages through a folder of links, and
nothing of the extras; the wheel is unpacked beside them.
"""

import importlib.metadata
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

BASE = ("torch", "numpy", "pydantic", "typer", "rich", "safetensors", "pyyaml")
PROBE = """
import importlib.util, torch, similis
from similis.registry import losses
for extra in ("timm", "torchvision", "pyarrow", "faiss", "matplotlib", "sklearn", "optuna", "ray", "PIL"):
    assert importlib.util.find_spec(extra) is None, f"{extra} is visible: this is not the base install"
number = 0
for entry in losses:
    for form, options in entry.forms.items():
        criterion = similis.loss(entry.name, num_classes=4, dim=8, **options)
        x = torch.randn(12, 8, requires_grad=True)
        criterion(x, torch.arange(12) % 4).backward()
        assert torch.isfinite(x.grad).all(), (entry.name, form)
        number += 1
assert number > 20, number
print(f"base dependencies only: {number} losses and forms run")
"""


def needed(name: str, seen: set[str]) -> set[str]:
    """The distributions that one needs, without extras."""
    if name in seen:
        return seen
    seen.add(name)
    for line in importlib.metadata.requires(name) or []:
        requirement, _, marker = line.partition(";")
        if "extra" in marker:
            continue
        found = re.match(r"[A-Za-z0-9._-]+", requirement)
        try:
            needed(importlib.metadata.distribution(found.group()).metadata["Name"], seen)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform or Python
    return seen


def main() -> None:
    """Link the base packages, unpack the wheel, run the probe."""
    wheel = next(Path(sys.argv[1]).glob("similis-*.whl"))
    names: set[str] = set()
    for base in BASE:
        needed(importlib.metadata.distribution(base).metadata["Name"], names)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            distribution = importlib.metadata.distribution(name)
            for file in {Path(str(f)).parts[0] for f in distribution.files or [] if not str(f).startswith("..")}:
                link, target = Path(folder) / file, Path(str(distribution.locate_file(file)))
                if target.exists() and not link.exists():
                    link.symlink_to(target)
        zipfile.ZipFile(wheel).extractall(folder)
        code = f"import sys; sys.path.insert(0, {folder!r})\n{PROBE}"
        subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


if __name__ == "__main__":
    main()
