"""The routes that read: search, classify, compare, explain, list."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi import Query as Parameter
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from similis.serving.collection import Collection, Found, Query, parse_vector
from similis.serving.forms import FILE, Form, check_name, describe, parse_number, read_form
from similis.serving.limits import Refusal
from similis.serving.uploads import parse_box


class Problem(BaseModel):
    """What every error answers with."""

    error: str


PROBLEM: dict[int | str, dict[str, Any]] = {"default": {"model": Problem, "description": "What is wrong."}}
reads = APIRouter(prefix="/v1", responses=PROBLEM)
K = 12
PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {}, "image/webp": {}, "image/png": {}}, "description": "An image."}
}
NAME = {"type": "string", "minLength": 1, "maxLength": 512}


def collection_of(request: Request) -> Collection:
    """What is served; refused until it is loaded."""
    found: Collection | None = request.app.state.collection
    if found is None:
        raise Refusal(503, "the model is still loading; try again in a second", retry_after="1")
    return found


async def form_of(request: Request) -> tuple[Collection, Form]:
    """The collection, and the form that was sent."""
    collection = collection_of(request)
    return collection, await read_form(request, collection.limits)


@reads.get("/model")
async def model(request: Request) -> dict[str, Any]:
    """What is served: the model, the collection, the limits."""
    it = collection_of(request)
    held, chosen, look = it.model.gallery.contents(), it.model.chosen, it.model.preprocessing
    return {
        "name": it.model.name, "model_hash": it.model.model_hash, "dim": it.model.dim, "items": len(held.entries),
        "labels": [{"label": label, "count": len(rows)} for label, rows in held.places.items()],
        "threshold": None if chosen is None else {"similarity": chosen.value, "far": chosen.far},
        "rates": [rate._asdict() for rate in it.rates],
        "image_size": None if look is None else look.size,
        "limits": {"bytes": it.limits.bytes, "pixels": it.limits.pixels, "k": it.limits.k},
        "writable": not it.store.refusal,
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


@reads.post("/search", openapi_extra=describe(
    file=FILE, id=NAME, k={"type": "integer", "minimum": 1, "maximum": 200, "default": K}, label=NAME,
    box={"type": "string"}, copies={"type": "boolean", "default": True},
))  # fmt: skip
async def search(request: Request) -> JSONResponse:
    """The items most like an image, a part of it, or another item."""
    started = perf_counter()
    it, form = await form_of(request)
    k, label, box = int(form.number("k", K, 1, it.limits.k)), form.text("label"), form.text("box")
    copies, name, data = form.flag("copies", True), form.text("id"), await form.file("file")
    if (data is None) == (name is None):
        raise Refusal(422, "give one of file, an image, and id, of an item")
    if data is not None:
        upload = await it.read(data, box=parse_box(box) if box else None)
        query = Query((await it.vectors_of([upload]))[0], k, label, "" if copies else upload.digest)
    else:
        entry, vector = item_of(it, str(name))
        query = Query(vector, k, label, "" if copies else entry.digest)
    return answer(await it.find(query), started)


@reads.post("/search/vector", openapi_extra={"requestBody": {"required": True, "content": {
    "application/octet-stream": {"schema": FILE}}}, "parameters": [
        {"name": "k", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 200, "default": K}},
        {"name": "label", "in": "query", "schema": NAME},
        {"name": "model", "in": "query", "schema": NAME}]})  # fmt: skip
async def search_vector(request: Request) -> JSONResponse:
    """The items most like a vector: D little-endian float32 numbers of the model whose hash is given."""
    started = perf_counter()
    it, given = collection_of(request), request.query_params
    check_model(it, given.get("model"))
    k, label = int(parse_number("k", given.get("k", str(K)), 1, it.limits.k)), given.get("label") or None
    vector = parse_vector(await request.body(), it.model.dim)
    return answer(await it.find(Query(vector, k, label)), started)


@reads.post("/classify", openapi_extra=describe(
    ("file",), file=FILE, k={"type": "integer", "minimum": 1, "maximum": 200, "default": 5}))  # fmt: skip
async def classify(request: Request) -> dict[str, Any]:
    """The label of an image; null if it is unknown."""
    it, form = await form_of(request)
    voters, data = int(form.number("k", 5, 1, it.limits.k)), await form.needed("file")
    labels = len(it.model.gallery.contents().places)
    if labels < 2:
        raise Refusal(422, f"the collection has {labels} labels; enrol images of two or more")
    (vector,) = await it.vectors_of([await it.read(data)])
    found = await it.find(Query(vector, 1, voters=voters))
    return {"label": None, "similarity": None} if found.answer is None else found.answer._asdict()


@reads.post("/same", openapi_extra=describe(
    ("a", "b"), a=FILE, b=FILE, far={"type": "number", "minimum": 0, "maximum": 1, "default": 1e-3}))  # fmt: skip
async def same(request: Request) -> dict[str, Any]:
    """Whether two images show the same class, at a false accept rate."""
    it, form = await form_of(request)
    far, a, b = form.number("far", 1e-3, 0.0, 1.0), await form.needed("a"), await form.needed("b")
    threshold = it.same_threshold(far)
    if threshold is None:
        raise Refusal(422, f"no threshold is known for a false accept rate of {far:g}; call: similis verify, export")
    vectors = await it.vectors_of([await it.read(a), await it.read(b)])
    similarity = float(it.model.similarity(*vectors))
    return {"same": similarity >= threshold, "similarity": similarity, "threshold": threshold}


@reads.post("/explain", response_class=Response, responses=PICTURE, openapi_extra=describe(
    ("id",), file=FILE, query_id=NAME, id=NAME))  # fmt: skip
async def explain(request: Request) -> Response:
    """A picture of the regions that make an image and an item similar."""
    it, form = await form_of(request)
    data, query_id, name = await form.file("file"), form.text("query_id"), form.text("id")
    if name is None or (data is None) == (query_id is None):
        raise Refusal(422, "give id, of an item, and one of file, an image, and query_id, of another item")
    query = data if data is not None else await picture_of(it, str(query_id))
    picture = await picture_of(it, name)
    return Response(await it.in_reader(it.explain, query, picture), media_type="image/png")


def item_of(it: Collection, id: str) -> tuple[Any, Any]:
    """Entry and vector of an item."""
    found = it.model.gallery.find(id)
    if found is None:
        raise Refusal(404, f"there is no item {id[:80]!r}; list them at /v1/items")
    return found


async def picture_of(it: Collection, id: str) -> bytes:
    """The small picture of an item."""
    found: bytes | None = await it.in_reader(it.store.thumbnail, check_name("id", id, it.limits))
    if found is None:
        raise Refusal(404, f"there is no picture of {id[:80]!r}; search and classify work without")
    return found


def check_model(it: Collection, given: str | None) -> None:
    """Refuse vectors of another model."""
    if given is not None and given != it.model.model_hash:
        raise Refusal(409, f"the vectors are of the model {given[:12]!r}, and this is {it.model.model_hash[:12]!r}")


def answer(found: Found, started: float) -> JSONResponse:
    """Hits and label as JSON."""
    return JSONResponse({
        "hits": [hit._asdict() for hit in found.hits],
        "answer": None if found.answer is None else found.answer._asdict(),
        "milliseconds": round(1000 * (perf_counter() - started), 2),
    })  # fmt: skip
