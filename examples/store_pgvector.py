"""Vectors of `similis embed` in PostgreSQL with pgvector: python examples/store_pgvector.py vectors/ postgresql://..."""

import csv
import io
import sys
from pathlib import Path

import numpy as np
import psycopg2
import pyarrow.dataset
import pyarrow.parquet as pq
import torch

import similis

folder, server = sys.argv[1:]
paths = sorted(Path(folder).glob("part-*.parquet"))
queries = np.stack(pyarrow.dataset.dataset(paths).head(100)["vector"].to_numpy())
connection = psycopg2.connect(server)
cursor = connection.cursor()
cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
cursor.execute(f"CREATE TABLE IF NOT EXISTS photos (id text PRIMARY KEY, vector vector({queries.shape[1]}))")
cursor.execute("CREATE TEMP TABLE part (LIKE photos) ON COMMIT DELETE ROWS")

exact = [[] for _ in queries]  # similarities and ids, merged part by part: all vectors may not fit into memory
for path in paths:  # the same command continues a killed run: ids that are there are not loaded again
    rows = pq.read_table(path, columns=["id", "vector"])
    ids, vectors = rows["id"].to_pylist(), np.stack(rows["vector"].to_numpy())
    cursor.execute("SELECT count(*) FROM photos WHERE id = ANY(%s)", (ids,))
    if cursor.fetchone()[0] < len(ids):
        csv.writer(lines := io.StringIO()).writerows(zip(ids, vectors.tolist(), strict=True))  # as [0.25, 0.5]
        lines.seek(0)
        cursor.copy_expert("COPY part FROM STDIN WITH (FORMAT csv)", lines)
        cursor.execute("INSERT INTO photos SELECT * FROM part ON CONFLICT DO NOTHING")
    connection.commit()
    near = similis.search(torch.tensor(queries), torch.tensor(vectors), 10)
    for best, similarity, index in zip(exact, near.similarity.tolist(), near.index.tolist(), strict=True):
        best[:] = sorted([*best, *zip(similarity, (ids[row] for row in index), strict=True)], reverse=True)[:10]

same = 0  # for an approximate index: CREATE INDEX ON photos USING hnsw (vector vector_cosine_ops)
for query, best in zip(queries.tolist(), exact, strict=True):
    cursor.execute("SELECT id FROM photos ORDER BY vector <=> %s::vector LIMIT 10", (str(query),))
    same += {key for (key,) in cursor.fetchall()} == {key for _, key in best}
cursor.execute("SELECT count(*) FROM photos")
print(f"{cursor.fetchone()[0]} vectors, {same} of {len(queries)} queries find the ten nearest of an exact search")
