"""Test environment only: lets a torchvision built for CUDA be imported beside a CPU-only torch.

Its compiled operators cannot load without the CUDA libraries, and its Python side then fails on a
missing ``nms``. When that is so, the two operator signatures are declared empty before the import.
"""

import importlib.abc
import importlib.util
import sys
from pathlib import Path

SIGNATURES = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor dets_scale, Tensor dets_zp, Tensor scores, Tensor scores_scale, "
    "Tensor scores_zp, float iou_threshold) -> Tensor",
)
kept: list[object] = []  # a library that is collected takes its operators with it


def declare_missing(folder: str) -> None:
    """Declare the operators unless torchvision's own library loads."""
    import torch

    try:
        torch.ops.load_library(str(Path(folder) / "_C.so"))
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for signature in SIGNATURES:
            library.define(signature)
        kept.append(library)


class Hook(importlib.abc.MetaPathFinder):
    """Steps in at the first ``import torchvision`` and then out of the way."""

    def find_spec(self, name, path=None, target=None):
        if name != "torchvision":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torchvision")
        if spec is not None and spec.submodule_search_locations:
            declare_missing(spec.submodule_search_locations[0])
        return spec


sys.meta_path.insert(0, Hook())
