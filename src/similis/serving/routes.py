"""The routes that read: search, classify, compare, explain, list."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Form, Request, Response, UploadFile
from fastapi import Query as Parameter
from pydantic import BaseModel
from pydantic_core import to_json

from similis.model.answers import Answer
from similis.retrieval.classification import VOTERS
from similis.serving.collection import Collection, Found, Query, parse_vector
from similis.serving.forms import Box, Count, Image, Name, check_length
from similis.serving.limits import LONGEST_NAME, MOST_NEIGHBOURS, Refusal
from similis.serving.uploads import parse_box


class Problem(BaseModel):
    """What every error answers with."""

    error: str


PROBLEM: dict[int | str, dict[str, Any]] = {"default": {"model": Problem, "description": "What is wrong."}}
reads = APIRouter(prefix="/v1", responses=PROBLEM)
K = 12
LABELS = 1000  # that are listed
PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {}, "image/webp": {}, "image/png": {}}, "description": "An image."}
}
NAME = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
NUMBER = {"type": "integer", "minimum": 1, "maximum": MOST_NEIGHBOURS, "default": K}
BYTES = {"type": "string", "format": "binary"}


def collection_of(request: Request) -> Collection:
    """What is served; refused until it is loaded."""
    found: Collection | None = request.app.state.collection
    if found is None:
        raise Refusal(503, "the model is still loading; try again in a second", retry_after="1")
    return found


@reads.get("/model")
async def model(request: Request) -> dict[str, Any]:
    """What is served: the model, the collection, the limits."""
    it = collection_of(request)
    held, chosen, look = it.model.gallery.contents(), it.model.chosen, it.model.preprocessing
    counts, sizes = await it.in_reader(held.label_counts), await it.in_reader(it.store.original_sizes)
    labels = list(counts.items())
    return {
        "name": it.model.name, "model_hash": it.model.model_hash, "dim": it.model.dim, "items": len(held.entries),
        "labels": [{"label": label, "count": count} for label, count in labels[:LABELS]],
        "threshold": None if chosen is None else {"similarity": chosen.value, "far": chosen.far},
        "rates": [rate._asdict() for rate in it.rates], "rates_items": it.first_count,
        "image_size": None if look is None else look.size,
        "limits": {"bytes": it.limits.bytes, "pixels": it.limits.pixels, "k": MOST_NEIGHBOURS},
        "writable": not it.store.refusal, "kept_images": {"count": len(sizes), "bytes": sum(sizes.values())},
    }  # fmt: skip


@reads.get("/items")
async def items(
    request: Request,
    label: str | None = None,
    after: str = "",
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Ids and labels, in the order of ids."""
    it = collection_of(request)
    found = await it.in_reader(lambda: it.store.list_items(label=label, after=after, limit=limit + 1))
    rows = [{"id": name, "label": own} for name, own in found[:limit]]
    return {"items": rows, "next": rows[-1]["id"] if len(found) > limit else None}


@reads.get("/thumbnail", response_class=Response, responses=PICTURE)
async def thumbnail(request: Request, id: str) -> Response:
    """The small picture of an item."""
    it = collection_of(request)
    found = await picture_of(it, id)
    kind = "image/webp" if found[8:12] == b"WEBP" else "image/jpeg"
    return Response(found, media_type=kind, headers={"cache-control": "private, max-age=300"})


@reads.post("/search")
async def search(
    request: Request,
    *,
    file: Image | None = None,
    id: Name = None,
    k: Count = K,
    label: Name = None,
    box: Box = None,
    copies: Annotated[bool, Form()] = True,
) -> Response:
    """The items most like an image, a part of it, or another item."""
    started, it, part = perf_counter(), collection_of(request), parse_box(box) if box else None
    if (file is None) == (id is None):
        raise Refusal(422, "give either file (an image) or id (of an item)")
    entry, vector = (None, None) if id is None else await item_of(it, id)
    digest = "" if entry is None else entry.digest
    if vector is None or part is not None:  # a part of an item is cut from its small picture
        upload = await it.read(await bytes_of(it, file, id), box=part)
        (vector,), digest = await it.vectors_of([upload]), digest or upload.digest
    return answer(it, await it.find(Query(vector, k, label, "" if copies else digest)), started)


@reads.post("/search/vector", openapi_extra={"requestBody": {"required": True, "content": {
    "application/octet-stream": {"schema": BYTES}}}, "parameters": [
        {"name": "k", "in": "query", "schema": NUMBER},
        {"name": "label", "in": "query", "schema": NAME},
        {"name": "model", "in": "query", "schema": NAME}]})  # fmt: skip
async def search_vector(request: Request) -> Response:
    """The items most like a vector: D little-endian float32 numbers of the model whose hash is given."""
    started = perf_counter()
    it, words = collection_of(request), request.scope["query_string"].decode("latin-1")
    given = dict(parse_qsl(words, keep_blank_values=True))
    check_model(it, given.get("model"))
    text, label = given.get("k", str(K))[:40], given.get("label") or None
    k = int(text) if text.isdecimal() else 0
    if not 1 <= k <= MOST_NEIGHBOURS:
        raise Refusal(422, f"k is {text!r}; give a whole number from 1 to {MOST_NEIGHBOURS}")
    vector = parse_vector(await read_body(request), it.model.dim)
    return answer(it, await it.find(Query(vector, k, label)), started)


@reads.post("/classify")
async def classify(request: Request, file: Image, k: Count = VOTERS) -> dict[str, Any]:
    """The label of an image, null if it is unknown, the label that is nearest, and a note where they are not plain."""
    it = collection_of(request)
    labels = len(it.model.gallery.contents().numbered.names)
    if labels < 2:
        raise Refusal(422, f"the collection has {labels} labels; enrol images of two or more")
    (vector,) = await it.vectors_of([await it.read(await file.read())])
    found = await it.find(Query(vector, 1, voters=k))
    return dict.fromkeys(Answer._fields) if found.answer is None else found.answer._asdict()


@reads.post("/same")
async def same(request: Request, a: Image, b: Image, far: Annotated[float, Form(ge=0, le=1)] = 1e-3) -> dict[str, Any]:
    """Whether two images show the same class, at a false accept rate."""
    it = collection_of(request)
    threshold = it.same_threshold(far)
    if threshold is None:
        raise Refusal(422, f"no threshold is known for a false accept rate of {far:g}; call: similis verify, export")
    vectors = await it.vectors_of([await it.read(await each.read()) for each in (a, b)])
    similarity = float(it.model.similarity(*vectors))
    return {"same": similarity >= threshold, "similarity": similarity, "threshold": threshold}


@reads.post("/explain", response_class=Response, responses=PICTURE)
async def explain(
    request: Request, id: Name = None, file: Image | None = None, query_id: Name = None, box: Box = None
) -> Response:
    """A picture of the regions that make an image, or a part of it, and an item similar."""
    it, part = collection_of(request), parse_box(box) if box else None
    if id is None or (file is None) == (query_id is None):
        raise Refusal(422, "give id (of an item) and either file (an image) or query_id (of another item)")
    picture, named = await picture_of(it, id), (query_id or "your photo", await bytes_of(it, file, query_id))
    return Response(await it.in_reader(it.explain, named, await item_of(it, id), picture, part), media_type="image/png")


async def bytes_of(it: Collection, file: UploadFile | None, id: str | None) -> bytes:
    """The image that was sent, or else the small picture of an item."""
    return await file.read() if file is not None else await picture_of(it, str(id))


async def item_of(it: Collection, id: str) -> tuple[Any, Any]:
    """Entry and vector of an item; an index reads all its ids to find one."""
    found: tuple[Any, Any] | None = await it.in_reader(it.model.gallery.find, id)
    if found is None:
        raise Refusal(404, f"there is no item {id[:80]!r}; list them at /v1/items")
    return found


async def picture_of(it: Collection, id: str) -> bytes:
    """The small picture of an item."""
    found: bytes | None = await it.in_reader(it.store.thumbnail, check_length("id", id))
    if found is None:
        await item_of(it, id)  # an item without a picture, or no item at all
        raise Refusal(404, f"there is no picture of {id[:80]!r}; search and classify work without")
    return found


def check_model(it: Collection, given: str | None) -> None:
    """Refuse vectors of another model."""
    if given is not None and given != it.model.model_hash:
        raise Refusal(409, f"the vectors are of the model {given[:12]!r}, and this is {it.model.model_hash[:12]!r}")


async def read_body(request: Request) -> bytes:
    """The whole body, faster than ``request.body()``; it can be read once."""
    message = await request.receive()
    parts = [message["body"]]
    while message["more_body"]:
        message = await request.receive()
        parts.append(message["body"])
    return b"".join(parts)


def answer(it: Collection, found: Found, started: float) -> Response:
    """Hits, label and the model whose space they are in as JSON, by the compiled encoder of pydantic."""
    told = {
        "model": it.model.model_hash,
        "hits": [hit._asdict() for hit in found.hits],
        "answer": None if found.answer is None else found.answer._asdict(),
        "milliseconds": round(1000 * (perf_counter() - started), 2),
    }
    return Response(to_json(told), media_type="application/json")
