"""Vectors of `similis embed` in PostgreSQL with pgvector: python examples/store_pgvector.py vectors/ postgresql://..."""

import csv
import io
import sys

import numpy as np
import psycopg2
import pyarrow.parquet as pq
import torch

import similis

vectors_folder, server = sys.argv[1:]
rows = pq.read_table(vectors_folder)  # id, vector, label, path, ...
vectors = np.stack(rows.column("vector").to_numpy())
texts = [str(vector) for vector in vectors.tolist()]  # as pgvector writes them: [0.25, 0.5]
keys = rows.column("id").to_pylist()  # paths: they stay when photos are added

connection = psycopg2.connect(server)
cursor = connection.cursor()
cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
cursor.execute(f"CREATE TABLE photos (id text PRIMARY KEY, vector vector({vectors.shape[1]}))")
table = csv.writer(lines := io.StringIO())
table.writerows(zip(keys, texts, strict=True))
lines.seek(0)
cursor.copy_expert("COPY photos FROM STDIN WITH (FORMAT csv)", lines)
connection.commit()  # for an approximate index: CREATE INDEX ON photos USING hnsw (vector vector_cosine_ops)

exact = similis.search(torch.tensor(vectors[:100]), torch.tensor(vectors), 10).index.tolist()
same = 0
for text, expected in zip(texts, exact, strict=False):
    cursor.execute("SELECT id FROM photos ORDER BY vector <=> %s::vector LIMIT 10", (text,))
    same += {key for (key,) in cursor.fetchall()} == {keys[row] for row in expected}
connection.close()
print(f"{len(rows)} vectors, {same} of {len(exact)} queries find the ten nearest of an exact search")
