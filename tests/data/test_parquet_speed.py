"""Class-balanced batches from Parquet come as fast as from a folder of files."""

import statistics
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from similis.data.examples import image_data
from similis.data.loader import Loader
from similis.data.open_data import open_data
from similis.data.samplers.balanced import balanced
from similis.values import Preprocessing
from tests.data.pictures import picture, write

WISH = Preprocessing(size=96, resize=112)


@pytest.mark.slow
def test_balanced_batches_of_parquet_are_as_fast_as_a_folder(tmp_path):
    files = {f"c{n % 50}/{n}.jpg": picture(n, 320, 240, form="JPEG") for n in range(1500)}
    folder = open_data(str(write(tmp_path / "photos", files)))
    records = [{"bytes": files[path], "path": path} for path in folder.values("path")]
    table = pa.table({"image": records, "label": folder.values("class_name")})
    pq.write_table(table, tmp_path / "photos.parquet", row_group_size=100)
    loaders = [Loader(image_data(data, WISH)) for data in (folder, open_data(tmp_path / "photos.parquet"))]
    batches = balanced(folder.labels, batch_size=100, seed=0, epoch=0, per_class=4)
    seconds: list[list[float]] = [[], []]
    for turn in range(10):  # alternating, so that a load on the machine meets both
        for which in (0, 1) if turn % 2 else (1, 0):
            begun = time.perf_counter()
            for _ in loaders[which].train(batches[:4], policy="resize-crop", seed=0, epoch=turn):
                pass
            seconds[which].append(time.perf_counter() - begun)
    ratio = statistics.median(a / b for a, b in zip(*seconds, strict=True))
    print(f"speed of Parquet over that of the folder: {ratio:.3f}")
    assert ratio > 0.9
