"""Vectors of `similis embed` in Qdrant, in its local mode: python examples/store_qdrant.py vectors/ store/."""

import sys
import uuid

import numpy as np
import pyarrow.parquet as pq
import torch
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, VectorParams

import similis

vectors_folder, store = sys.argv[1:]
rows = pq.read_table(vectors_folder)  # id, vector, label, path, ...
vectors = np.stack(rows.column("vector").to_numpy())
client = QdrantClient(path=store)  # QdrantClient(url=...) for a server
client.create_collection("photos", VectorParams(size=vectors.shape[1], distance=Distance.COSINE))
about = rows.select(["path", "label", "class_name"]).to_pylist()
keys = [
    str(uuid.uuid5(uuid.NAMESPACE_URL, key)) for key in rows.column("id").to_pylist()
]  # Qdrant wants numbers or UUIDs
client.upload_collection("photos", vectors, payload=about, ids=keys)

queries = vectors[:100]
exact = similis.search(torch.tensor(queries), torch.tensor(vectors), 10).index.tolist()
same = 0
for query, expected in zip(queries, exact, strict=True):
    found = client.query_points("photos", query=query, limit=10).points
    same += {point.id for point in found} == {keys[row] for row in expected}
client.close()
print(f"{len(rows)} vectors, {same} of {len(queries)} queries find the ten nearest of an exact search")
