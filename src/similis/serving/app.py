"""The application: routes, answers to errors, the page, health."""

from __future__ import annotations

import logging
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from similis.serving.batching import BusyError
from similis.serving.changes import changes
from similis.serving.limits import Refusal
from similis.serving.metrics import Metrics
from similis.serving.routes import PROBLEM, collection_of, reads
from similis.serving.store import StoreError, StoreFullError
from similis.values import DataError, MissingExtraError, SimilisError, UserError

logger = logging.getLogger(__name__)
PAGE = Path(__file__).with_name("page.html")
# Error -> status; the first that fits.
STATUS: dict[type[SimilisError], int] = {
    BusyError: 503, StoreFullError: 507, StoreError: 503, MissingExtraError: 501, UserError: 422,
    DataError: 422,
}  # fmt: skip


def build_app(key_hash: bytes, metrics: Metrics, lifespan: Callable[[FastAPI], Any] | None = None) -> FastAPI:
    """The application without a collection, which ``app.state.collection`` gets once it is loaded."""
    app = FastAPI(title="Similis", version=version("similis"), docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.key_hash, app.state.collection, app.state.metrics = key_hash, None, metrics
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(SimilisError, on_error)
    app.add_exception_handler(Exception, on_failure)
    app.include_router(reads)
    app.include_router(changes)
    html = PAGE.read_text(encoding="utf-8")
    headers = {"content-security-policy": content_policy(html), "cache-control": "no-cache"}
    app.get("/", response_class=HTMLResponse)(lambda: HTMLResponse(html, headers=headers))
    app.get("/health")(health)
    app.get("/ready", responses=PROBLEM)(ready)
    app.get("/metrics", response_class=PlainTextResponse)(show_metrics)
    return app


def answer_directly(app: FastAPI, endpoint: Callable[[Request], Awaitable[Response]]) -> ASGIApp:
    """An endpoint that reads its request itself, without the machinery of routes in front of it."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request({**scope, "app": app}, receive)
        try:
            response = await endpoint(request)
        except SimilisError as error:
            response = await on_error(request, error)
        await response(scope, receive, send)

    return call


async def health() -> dict[str, str]:
    """Whether the process answers."""
    return {"status": "ok"}


async def ready(request: Request) -> dict[str, str]:
    """Whether the model and its collection are loaded, and whether the threshold of unknown could be estimated."""
    return {"status": "ready", "unknown_threshold": collection_of(request).estimate}


async def show_metrics(request: Request) -> PlainTextResponse:
    """Counts for Prometheus."""
    it = request.app.state.collection
    gauges = {} if it is None else {"queue_length": len(it.batcher), "items": len(it.model.gallery)}
    return PlainTextResponse(request.app.state.metrics.text(gauges), media_type=CONTENT_TYPE_LATEST)


async def on_invalid(_: Request, error: Any) -> JSONResponse:
    """A parameter that FastAPI refused."""
    first = error.errors()[0]
    given = f" is {first['input'][:40]!r}" if isinstance(first.get("input"), str) else ""
    return JSONResponse({"error": f"{first['loc'][-1]}{given}: {first['msg']}; see /openapi.json"}, 422)


async def on_http_error(request: Request, error: Any) -> JSONResponse:
    """A refusal, or a path or a method that does not exist."""
    path, sentence = request.url.path[:80], error.detail
    if not isinstance(error, Refusal):
        words = {404: f"there is no {path!r}", 405: f"{path!r} does not take {request.method}"}
        sentence = f"{words.get(error.status_code, error.detail)}; see /openapi.json"
    return JSONResponse({"error": sentence}, error.status_code, error.headers)


async def on_error(_: Request, error: Any) -> JSONResponse:
    """An error of Similis, which says in one sentence what to do."""
    status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
    return JSONResponse({"error": str(error)}, status, {"retry-after": "1"} if status == 503 else None)


async def on_failure(request: Request, error: Exception) -> JSONResponse:
    """An error of the program; the log has it."""
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return JSONResponse({"error": "the server failed on this request; its log says why"}, 500)


def content_policy(html: str) -> str:
    """A Content-Security-Policy that allows the page's own inline script and style, by hash, and nothing from outside.

    Example:
        >>> "script-src 'sha256-" in content_policy("<script>go()</script>")
        True
    """
    allowed = {}
    for tag in ("script", "style"):
        bodies = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", html, re.DOTALL)
        hashes = [b64encode(sha256(body.encode()).digest()).decode() for body in bodies]
        allowed[tag] = " ".join(f"'sha256-{each}'" for each in hashes) or "'none'"
    return (
        f"default-src 'self'; script-src {allowed['script']}; style-src {allowed['style']}; "
        "img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
