"""Vectors of `similis embed` in LanceDB, which needs no server: python examples/store_lancedb.py vectors/ store/."""

import sys
from pathlib import Path

import lancedb
import numpy as np
import pyarrow.dataset
import pyarrow.parquet as pq
import torch

import similis

folder, store = sys.argv[1:]
paths = sorted(Path(folder).glob("part-*.parquet"))
queries = np.stack(pyarrow.dataset.dataset(paths).head(100)["vector"].to_numpy())
database = lancedb.connect(store)
try:
    photos = database.open_table("photos")
except ValueError:  # there is none yet
    photos = database.create_table("photos", schema=pq.read_schema(paths[0]))

exact = [[] for _ in queries]  # similarities and ids, merged part by part: all vectors may not fit into memory
for path in paths:  # the same command continues a killed run: ids that are there are not loaded again
    rows = pq.read_table(path)  # id, vector, label, path, ...
    photos.merge_insert("id").when_not_matched_insert_all().execute(rows)  # one commit a part
    ids, vectors = rows["id"].to_pylist(), np.stack(rows["vector"].to_numpy())
    near = similis.search(torch.tensor(queries), torch.tensor(vectors), 10)
    for best, similarity, index in zip(exact, near.similarity.tolist(), near.index.tolist(), strict=True):
        best[:] = sorted([*best, *zip(similarity, (ids[row] for row in index), strict=True)], reverse=True)[:10]

same = 0
for query, best in zip(queries, exact, strict=True):
    found = photos.search(query).distance_type("cosine").limit(10).select(["id", "_distance"]).to_list()
    same += {row["id"] for row in found} == {key for _, key in best}
print(f"{photos.count_rows()} vectors, {same} of {len(queries)} queries find the ten nearest of an exact search")
