"""The routes that change the collection, all of which want the key."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated

import numpy as np
import torch
from fastapi import APIRouter, Depends, Form, Request, Response, UploadFile
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ValidationError

from similis.model.answers import default_id
from similis.retrieval.gallery import Entry
from similis.serving.forms import Name, check_length, check_name
from similis.serving.limits import Refusal
from similis.serving.routes import PROBLEM, check_model, collection_of
from similis.serving.store import Item

NO_IDS: list[str] = []
bearer = HTTPBearer(auto_error=False, description="The key of the server.")


def hash_key(key: str) -> bytes:
    """What is held of a key."""
    return sha256(key.encode()).digest()


def check_key(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> None:
    """Reject a request without the key; the comparison takes the same time whatever is given."""
    held: bytes = request.app.state.key_hash
    if given is None or not hmac.compare_digest(hash_key(given.credentials), held):
        words = (
            "changes need the key; send the header Authorization: Bearer KEY" if given is None else "the key is wrong"
        )
        raise Refusal(
            401, f"{words}; KEY is SIMILIS_KEY, or in the address that the server printed", www_authenticate="Bearer"
        )
    refusal = collection_of(request).store.refusal
    if refusal:
        raise Refusal(403 if "--read-only" in refusal else 503, f"the collection takes no changes: {refusal}")


changes = APIRouter(prefix="/v1", dependencies=[Depends(check_key)], responses=PROBLEM)


class Vectors(BaseModel):
    """Ready embeddings of the model with this hash."""

    model: str
    ids: list[str]
    labels: list[str | None] | None = None
    vectors: list[list[float]]


@changes.post("/items", status_code=201)
async def enrol(
    request: Request, file: list[UploadFile], label: Name = None, ids: Annotated[list[str], Form()] = NO_IDS
) -> dict[str, list[str]]:
    """Put images into the collection; a known id is replaced."""
    it = collection_of(request)
    if label is not None:
        check_name("label", label)
    for name in ids:
        check_name("ids", name)
    if len(file) > it.limits.files or (ids and len(ids) != len(file)):
        words = f"give 1 to {it.limits.files} files, and an id for each or none"
        raise Refusal(422, f"{len(file)} files and {len(ids)} ids given; {words}")
    check_different(ids)
    uploads = await asyncio.gather(*[it.read(await each.read(), thumbnail=True) for each in file])
    vectors = await it.vectors_of(uploads)
    called = ids or [default_id(None, upload.digest) for upload in uploads]
    items = [
        Item(Entry(name, label, upload.digest), vector, upload.thumbnail, upload.original if it.keep_images else b"")
        for name, upload, vector in zip(called, uploads, vectors, strict=True)
    ]
    await it.in_writer(it.add, items)
    return {"ids": called}


@changes.post("/items/vectors", status_code=201, openapi_extra={"requestBody": {"required": True, "content": {
    "application/json": {"schema": Vectors.model_json_schema()}}}})  # fmt: skip
async def enrol_vectors(request: Request) -> dict[str, list[str]]:
    """Put ready embeddings into the collection; a known id is replaced."""
    it, body = collection_of(request), await request.body()

    def parse() -> list[Item]:
        try:
            given = Vectors.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            raise Refusal(422, f"{where}: {first['msg']}; send model, ids, labels and vectors as JSON") from error
        check_model(it, given.model)
        return vector_items(given, it.model.dim)

    items = await it.in_reader(parse)
    await it.in_writer(it.add, items)
    return {"ids": [item.entry.id for item in items]}


def vector_items(given: Vectors, dim: int) -> list[Item]:
    """Embeddings as items, after all checks."""
    labels = given.labels if given.labels is not None else [None] * len(given.ids)
    if not given.ids or not len(given.ids) == len(labels) == len(given.vectors):
        raise Refusal(
            422, f"{len(given.ids)} ids, {len(labels)} labels and {len(given.vectors)} vectors given; "
            "give one or more, and of each the same number"
        )  # fmt: skip
    if any(len(vector) != dim for vector in given.vectors):
        raise Refusal(422, f"a vector has another length than {dim}, which this model has")
    with np.errstate(over="ignore"):
        vectors = torch.from_numpy(np.asarray(given.vectors, dtype=np.float64).astype(np.float32))
    if not bool(vectors.isfinite().all()):
        raise Refusal(422, "a vector has numbers that are not finite; send finite ones")
    check_different(given.ids)
    for what, names in (("ids", given.ids), ("labels", [label for label in labels if label is not None])):
        for name in names:
            check_name(what, name)
    rows = zip(given.ids, labels, vectors, strict=True)
    return [Item(Entry(name, label, ""), vector, b"") for name, label, vector in rows]


def check_different(ids: Sequence[str]) -> None:
    """Refuse ids of which one would replace another in the same request."""
    twice = next((name for name, number in Counter(ids).items() if number > 1), None)
    if twice is not None:
        raise Refusal(422, f"ids holds {twice[:80]!r} more than once; give every item an id of its own")


@changes.delete("/items", status_code=204)
async def remove(request: Request, id: str) -> Response:
    """Take an item out of the collection."""
    it = collection_of(request)
    if not await it.in_writer(it.remove, check_length("id", id), None):
        raise Refusal(404, f"there is no item {id[:80]!r}; list them at /v1/items")
    return Response(status_code=204)


@changes.delete("/labels")
async def forget(request: Request, label: str) -> dict[str, int]:
    """Take all items with a label out of the collection."""
    it = collection_of(request)
    removed: int = await it.in_writer(it.remove, None, check_length("label", label))
    if not removed:
        raise Refusal(404, f"no item has the label {label[:80]!r}; see the labels at /v1/model")
    return {"removed": removed}
