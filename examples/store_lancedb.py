"""Vectors of `similis embed` in LanceDB, which needs no server: python examples/store_lancedb.py vectors/ store/."""

import sys

import lancedb
import numpy as np
import pyarrow.parquet as pq
import torch

import similis

vectors_folder, store = sys.argv[1:]
rows = pq.read_table(vectors_folder)  # id, vector, label, path, ...
photos = lancedb.connect(store).create_table("photos", data=rows, mode="overwrite")

keys = rows.column("id").to_pylist()
vectors = np.stack(rows.column("vector").to_numpy())
queries = vectors[:100]
exact = similis.search(torch.tensor(queries), torch.tensor(vectors), 10).index.tolist()
same = 0
for query, expected in zip(queries, exact, strict=True):
    found = photos.search(query).distance_type("cosine").limit(10).select(["id", "path", "_distance"]).to_list()
    same += {row["id"] for row in found} == {keys[row] for row in expected}
print(f"{len(rows)} vectors, {same} of {len(queries)} queries find the ten nearest of an exact search")
