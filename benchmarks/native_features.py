"""Features of pretrained networks as tables: ``python -m benchmarks.native_features [--only ROW]``.

Pooled features of EfficientNet-lite0, lite1 and lite2 for every photo of CUB-200-2011, CARS196 and Grocery, at each
network's own resolution and as the network gives them, before any normalisation. A head trains on it in seconds:
``data.source: runs/features/cub200_2011-lite0.parquet`` with ``model.backbone: identity``. ``SIMILIS_DATA`` names the
folder of photos and of the weights of lite0; ``benchmarks.lite_weights`` makes the others. What is there is kept.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.lite_weights import weights
from benchmarks.rounds import arguments
from similis.data.open_data import open_data
from similis.model.encoding import Encoder
from similis.run.machine import Machine
from similis.run.network import build_network
from similis.run.spec import ModelSpec

FOLDER = Path("runs/features")
NETWORKS = ("lite0", "lite1", "lite2")
DATA = ("cub200_2011", "cars196", "grocery")


def network_spec(network: str) -> ModelSpec:
    """A network without a head at its own resolution."""
    return ModelSpec(backbone=f"tf_efficientnet_{network}", weights=weights(network), dim=None)


def write_features(data: str, network: str, path: Path) -> None:
    """Embed every photo of a data set and write vectors, classes and parts."""
    machine = Machine(device="cpu")
    embedder = build_network(network_spec(network), machine, normalise=False, seed=0).eval()
    manifest = open_data(data, allow_counts=True)
    vectors = Encoder(embedder, machine).encode(manifest, batch_size=32)
    columns = {
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.numpy().ravel()), vectors.shape[1]),
        "class_name": manifest.values("class_name"),
        "label": manifest.labels.numpy(),
    }
    if "split" in manifest.table.column_names:
        columns["split"] = manifest.values("split")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    pq.write_table(pa.table(columns), unfinished)
    unfinished.replace(path)


def main() -> None:
    """Write the tables that are asked for and not there."""
    jobs = {f"{data} {network}": (data, network) for data in DATA for network in NETWORKS}
    asked = arguments(__doc__ or "", list(jobs))
    for row in [asked.only] if asked.only else jobs:
        path = FOLDER / f"{row.replace(' ', '-')}.parquet"
        if not path.exists():
            write_features(*jobs[row], path)
        print(path, flush=True)


if __name__ == "__main__":
    main()
