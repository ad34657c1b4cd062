"""Vectors of `similis embed` in Qdrant, in its local mode: python examples/store_qdrant.py vectors/ store/."""

import sys
import uuid
from pathlib import Path

import numpy as np
import pyarrow.dataset
import pyarrow.parquet as pq
import torch
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, PointStruct, VectorParams

import similis

folder, store = sys.argv[1:]
paths = sorted(Path(folder).glob("part-*.parquet"))
queries = np.stack(pyarrow.dataset.dataset(paths).head(100)["vector"].to_numpy())
client = QdrantClient(path=store)  # QdrantClient(url=...) for a server
if not client.collection_exists("photos"):
    client.create_collection("photos", VectorParams(size=queries.shape[1], distance=Distance.COSINE))

exact = [[] for _ in queries]  # similarities and ids, merged part by part: all vectors may not fit into memory
for path in paths:  # the same command continues a killed run: ids that are there are not loaded again
    rows = pq.read_table(path)  # id, vector, label, path, ...
    ids, vectors = rows["id"].to_pylist(), np.stack(rows["vector"].to_numpy())
    keys = [str(uuid.uuid5(uuid.NAMESPACE_URL, key)) for key in ids]  # Qdrant wants numbers or UUIDs
    held = {point.id for point in client.retrieve("photos", keys, with_payload=False)}
    about = zip(keys, vectors.tolist(), rows.drop_columns("vector").to_pylist(), strict=True)
    new = [PointStruct(id=key, vector=vector, payload=row) for key, vector, row in about if key not in held]
    client.upload_points("photos", new, wait=True)
    near = similis.search(torch.tensor(queries), torch.tensor(vectors), 10)
    for best, similarity, index in zip(exact, near.similarity.tolist(), near.index.tolist(), strict=True):
        best[:] = sorted([*best, *zip(similarity, (ids[row] for row in index), strict=True)], reverse=True)[:10]

same = 0
for query, best in zip(queries, exact, strict=True):
    found = client.query_points("photos", query=query, limit=10).points
    same += {point.payload["id"] for point in found} == {key for _, key in best}
rows = client.count("photos").count
client.close()
print(f"{rows} vectors, {same} of {len(queries)} queries find the ten nearest of an exact search")
