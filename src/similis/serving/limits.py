"""What a request may cost, and the guard in front of the application that holds it to that."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from time import perf_counter

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from similis.serving.metrics import Metrics

MOST_NEIGHBOURS = 200
LONGEST_NAME = 512  # characters of an id or a label
SMALL = 2**16  # bytes: a body up to this size is always taken
DRAINED = 4  # times the limit of bytes that are read and thrown away, so that the sender hears why
SAFETY = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))


@dataclass(frozen=True)
class Limits:
    """What a request may cost.

    Attributes:
        bytes: of a body.
        pixels: of an image, as its header states them.
        seconds: from the first line of a request to the end of its answer.
        queue: images and vectors that may wait to be computed.
        buffered: bytes of all bodies together that are held at once.
        files: images in one request.
    """

    bytes: int = 16 * 2**20
    pixels: int = 40_000_000
    seconds: float = 30.0
    queue: int = 512
    buffered: int = 256 * 2**20
    files: int = 64


class Refusal(HTTPException):
    """An answer with an error code: its status and one sentence.

    It is of FastAPI's kind because one that is raised while a form is read would else become the status 400.
    """

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(status, sentence, {name.replace("_", "-"): value for name, value in headers.items()})


class Guard:
    """The limits on bytes and seconds, the check of ``Host``, headers of every answer, and the count of requests.

    Args:
        app: what answers.
        limits: see :class:`Limits`.
        metrics: where requests are counted.
        routes: paths that are counted by name.
        hosts: names that ``Host`` may have; empty for any. A page on another site that resolves its own name to this
            machine (DNS rebinding) is refused by it.
        direct: method and path -> what answers there without the machinery of routes, which costs more than a search.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        *,
        routes: Collection[str],
        hosts: Collection[str],
        direct: Mapping[tuple[str, str], ASGIApp],
    ) -> None:
        self.app, self.limits, self.metrics, self.routes, self.hosts = app, limits, metrics, routes, hosts
        self.direct, self.buffered = direct, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, exchange = perf_counter(), Exchange(self, receive, send)
        try:
            async with asyncio.timeout(self.limits.seconds):
                try:
                    self.check_head(scope)
                    app = self.direct.get((scope["method"], scope["path"]), self.app)
                    await app(scope, exchange.receive, exchange.send)
                except Refusal as refusal:
                    await exchange.refuse(refusal)
        except TimeoutError:
            words = f"the request took longer than {self.limits.seconds:g} seconds; try again with a smaller one"
            await exchange.refuse(Refusal(504, words, connection="close"))
        finally:
            self.buffered -= exchange.held
            route = scope["path"] if scope["path"] in self.routes else "other"
            self.metrics.count(route, exchange.status, perf_counter() - started)

    def check_head(self, scope: Scope) -> None:
        """Refuse what can be refused before the body is read."""
        headers = dict(scope["headers"])
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise Refusal(400, "the request has several Host headers; send one", connection="close")
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
        if self.hosts and name not in self.hosts:
            known = ", ".join(sorted(self.hosts))
            raise Refusal(403, f"the Host header is {host!r}; this server answers to {known}", connection="close")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > DRAINED * self.limits.bytes:
            raise too_large(self.limits, connection="close")


class Exchange:
    """One request on its way through the guard."""

    def __init__(self, guard: Guard, receive: Receive, send: Send) -> None:
        self.guard = guard
        self.status = 0
        self.held = 0
        self._receive, self._send = receive, send
        self._ended = False

    async def receive(self) -> Message:
        """The next part of the body, if the limits allow it."""
        message, limits = await self._receive(), self.guard.limits
        if message["type"] == "http.disconnect":
            raise Refusal(499, "the client left before the end of its request")
        size = len(message.get("body", b""))
        self.held += size
        self.guard.buffered += size
        self._ended = not message.get("more_body", False)
        if self.held > limits.bytes:
            await self._drain()
            raise too_large(limits, **({} if self._ended else {"connection": "close"}))
        if self.held > SMALL and self.guard.buffered > limits.buffered:
            raise Refusal(503, "too many large requests at once; try again in a second", retry_after="1")
        return message

    async def _drain(self) -> None:
        self.guard.buffered -= self.held
        self.held, drained = 0, 0
        while not self._ended and drained < DRAINED * self.guard.limits.bytes:
            message = await self._receive()
            drained += len(message.get("body", b""))
            self._ended = not message.get("more_body", False)

    async def send(self, message: Message) -> None:
        """Pass an answer on, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *SAFETY]
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with an error, unless an answer has begun."""
        if self.status:
            return
        response = JSONResponse({"error": refusal.detail}, refusal.status_code, refusal.headers)
        await response({"type": "http"}, self._receive, self.send)


def too_large(limits: Limits, **headers: str) -> Refusal:
    """The answer to a body of too many bytes."""
    return Refusal(413, f"the request has more than {limits.bytes:,} bytes; send a smaller image", **headers)
