"""Photos without labels into clusters: a table and contact sheets; photos that come later join the clusters."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from similis.data.images import prepare
from similis.data.readers.folder import is_image, list_tree
from similis.figures.canvas import save_figure
from similis.figures.contact_sheet import Tile, draw_sheet
from similis.model.model import Model
from similis.retrieval.grouping import check_resolution, group_vectors, join_groups
from similis.retrieval.similarity import to_comparable
from similis.training.files import write_table
from similis.training.tensors import read_tensors, save_tensors
from similis.values import DataError, UserError, import_extra

TABLE, VECTORS, SHEET = "clusters.csv", "clusters.safetensors", "clusters.png"
FORMAT = "similis-clusters-2"
SIDE, PHOTOS, COLUMNS, ROWS = 112, 4, 4, 12  # photos of a cluster, clusters on the sheet: below 2,000 pixels each way


@dataclass(frozen=True)
class Clustering:
    """Photos and their clusters.

    Attributes:
        paths: of the photos, relative to their folder.
        assignment: (N,) cluster of each.
        new: photos that were not there when clusters were made the last time.
    """

    paths: Sequence[str]
    assignment: Tensor
    new: int

    @property
    def sizes(self) -> Tensor:
        """Photos of each cluster."""
        return self.assignment.bincount()

    @property
    def alone(self) -> int:
        """Clusters of one photo."""
        return int((self.sizes == 1).sum())

    def summary(self) -> str:
        """How many photos, how many clusters, and how large these are."""
        sizes = f"largest {self.sizes.max():,} photos, median {self.sizes.median()}; {self.alone} of one photo"
        return f"{len(self.paths):,} photos in {len(self.sizes):,} clusters ({sizes})"


def cluster_folder(model: Model, folder: Path, out: Path, resolution: float, *, pictures: bool = True) -> Clustering:
    """Cluster the photos of a folder and write table, vectors and contact sheet.

    Where ``out`` holds clusters of an earlier call with the same model and resolution, its photos keep their clusters,
    and only the new photos are embedded: each joins the cluster of its nearest ones, and none opens a cluster.

    Args:
        model: whose embeddings compare the photos.
        folder: of photos, at any depth; names of folders do not matter.
        out: for what is written.
        resolution: higher gives more, smaller clusters.
        pictures: whether the contact sheet is drawn.
    """
    paths = [path for path in list_tree(str(folder))[0] if is_image(path)]
    if not paths:
        raise DataError(f"{str(folder)!r} holds no image; give a folder of photos")
    check_resolution(resolution)
    import_extra("sknetwork.clustering")  # what is missing should be said before photos are embedded
    about = {"format": FORMAT, "contents": model.model_hash, "resolution": f"{resolution:g}"}
    held, vectors, assignment = read_clusters(out, model.dim, about)
    known = set(held)
    new = [path for path in paths if path not in known]
    fresh = to_comparable(model.encode([folder / path for path in new]))
    joined = join_groups(fresh, vectors, assignment) if held else group_vectors(fresh, resolution)
    found = Clustering([*held, *new], torch.cat([assignment, joined]), len(new))
    write_clusters(found, out, torch.cat([vectors, fresh]), about)
    if pictures:
        draw_clusters(found, folder, out / SHEET)
    return found


def read_clusters(out: Path, dim: int, about: Mapping[str, str]) -> tuple[list[str], Tensor, Tensor]:
    """Paths, vectors and clusters of an earlier call like this one; nothing if there is none."""
    if not (out / TABLE).exists():
        return [], torch.empty(0, dim), torch.empty(0, dtype=torch.long)
    tensors, metadata = read_tensors(out / VECTORS)
    if metadata.get("contents") != about["contents"]:
        raise UserError(f"{out} holds clusters of another model; give another folder with --out, or delete it")
    if metadata.get("resolution") != about["resolution"]:
        raise UserError(
            f"resolution {about['resolution']} given, but {out} holds clusters of resolution "
            f"{metadata.get('resolution', 'unknown')}; give that for new photos to join, or another folder with --out"
        )
    with (out / TABLE).open(newline="", encoding="utf-8") as file:
        paths = [line["path"] for line in csv.DictReader(file)]
    if len(paths) != len(tensors["vectors"]):
        raise DataError(f"{out / TABLE} and {out / VECTORS} do not belong together; delete the folder")
    return paths, tensors["vectors"], tensors["assignment"]


def write_clusters(found: Clustering, out: Path, vectors: Tensor, about: Mapping[str, str]) -> None:
    """The table of photos, and what later photos are compared with."""
    save_tensors(out / VECTORS, {"vectors": vectors, "assignment": found.assignment}, about)
    write_table(out / TABLE, [("path", "cluster"), *zip(found.paths, found.assignment.tolist(), strict=True)])


def draw_clusters(found: Clustering, folder: Path, path: Path) -> None:
    """The largest clusters, a few photos of each, below a summary of all."""
    tiles = []
    for cluster in found.sizes.argsort(descending=True, stable=True)[: ROWS * COLUMNS].tolist():
        members = [folder / found.paths[row] for row in (found.assignment == cluster).nonzero()[:, 0].tolist()]
        there = [member for member in members if member.is_file()]
        spread = there[:: max(1, len(there) // PHOTOS)][:PHOTOS]  # neighbours in a folder are often of one series
        images = [prepare(each.read_bytes(), resize=SIDE) for each in spread]
        words = f"cluster {cluster}: {len(members):,} photo{'s' * (len(members) > 1)}"
        tiles += [Tile(images[0], words, beside=images[1:])] if images else []
    rows = [tiles[start : start + COLUMNS] for start in range(0, len(tiles), COLUMNS)]
    rest = f"; the {len(tiles)} largest are shown" * (len(found.sizes) > len(tiles))
    save_figure(draw_sheet(rows, side=SIDE, title=found.summary() + rest, queries=False), path)


def copy_clusters(found: Clustering, folder: Path, out: Path) -> None:
    """Copy every photo into a folder of its cluster."""
    for path, cluster in zip(found.paths, found.assignment.tolist(), strict=True):
        place = out / f"cluster-{cluster:05d}" / path.replace("/", "__")
        place.parent.mkdir(parents=True, exist_ok=True)
        if (folder / path).is_file() and not place.exists():
            shutil.copy2(folder / path, place)
