"""The process: a socket, a key, uvicorn, and a collection that is loaded while the server already answers."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from similis.model.bundle_files import STORE
from similis.serving.app import answer_directly, build_app
from similis.serving.changes import hash_key
from similis.serving.collection import Collection
from similis.serving.follower import Follower
from similis.serving.limits import Guard, Limits
from similis.serving.metrics import Metrics
from similis.serving.routes import search_vector
from similis.serving.store import Store
from similis.values import UserError

logger = logging.getLogger(__name__)
KEY = "SIMILIS_KEY"
KEY_LENGTHS = (16, 256)
HEAD = 2**16  # bytes of a request before its body
PATIENCE = 10.0  # seconds for them


class JoinedTransport:
    """A transport that sends at once what one turn of the event loop writes: the head and the body of an answer."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send with what else is written before the loop turns."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Close after what was written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts.clear()


class GuardedProtocol(HttpToolsProtocol):
    """HTTP of uvicorn with limits on the head of a request, which comes before any application."""

    def connection_made(self, transport: Any) -> None:
        """Start the clock."""
        super().connection_made(transport)
        self.transport = JoinedTransport(transport, self.loop)  # type: ignore[assignment]
        self.head, self.began = 0, self.loop.time()
        self.clock = self.loop.call_later(PATIENCE, self.end_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self.clock.cancel()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """The head is whole; another one may follow."""
        self.head = -1
        super().on_headers_complete()

    def on_message_begin(self) -> None:
        """A head begins."""
        self.head, self.began = 0, self.loop.time()
        super().on_message_begin()

    def data_received(self, data: bytes) -> None:
        """Count what comes before the end of a head."""
        super().data_received(data)
        if self.head >= 0:
            self.head += len(data)
            if self.head > HEAD and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

    def end_idle(self) -> None:
        """Close a connection that began no request, or did not end what it was sending after the answer."""
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self.timeout_keep_alive_task is None and self.loop.time() - self.began >= PATIENCE:
            self.transport.close()
            return
        self.clock = self.loop.call_later(PATIENCE, self.end_idle)


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    store: Path | None = None,
    read_only: bool = False,
    index: Path | None = None,
    verify: bool = False,
    keep_images: bool = False,
    limits: Limits | None = None,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve a model until the process is told to end.

    Args:
        folder: of a bundle or of a saved model.
        host: address to listen at; another one than loopback needs a key in the environment.
        port: 0 for any that is free.
        store: file of the collection; None for ``collection.sqlite`` in the folder.
        read_only: take no changes.
        index: folder of an index that is searched in place of the model's own images.
        verify: compare the hashes of its files before the first answer.
        keep_images: keep images that are added as they were sent, so that another model can embed them.
        limits: of requests.
        on_ready: called with the address of the page when everything is loaded.
    """
    given = check_key_setting(os.environ.get(KEY, ""))
    if not given and not is_loopback(host):
        raise UserError(
            f"--host {host} can be reached from other machines, and {KEY} is not set; set it to a long secret, or "
            "leave --host at 127.0.0.1"
        )
    key, metrics, limits = given or secrets.token_urlsafe(24), Metrics(), limits or Limits()
    listening = listen(host, port)
    where = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
    failed: list[BaseException] = []
    file = store or folder / STORE

    def collect(held: Store | None = None) -> Collection:
        return Collection(
            folder, file, limits, metrics, read_only=read_only, index=index, verify=verify, keep_images=keep_images,
            store=held,
        )  # fmt: skip

    follower = Follower(file, collect)

    async def fill(app: FastAPI) -> None:
        """Load the collection while the server already answers; without one it ends."""
        try:
            app.state.collection = await asyncio.to_thread(collect)
        except BaseException as error:
            failed.append(error)
            server.should_exit = True
        else:
            on_ready(where if given else f"{where}#key={key}")
            if not read_only and index is None:
                follower.start(app.state)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(fill(app))
        yield
        await loading
        await asyncio.to_thread(follower.close)
        if app.state.collection is not None:
            await asyncio.to_thread(app.state.collection.close)

    app = build_app(hash_key(key), metrics, lifespan)
    hosts = {"localhost", "127.0.0.1", "[::1]", host.lower()} if is_loopback(host) else set()
    direct = {("POST", "/v1/search/vector"): answer_directly(app, search_vector)}  # which must be quick
    routes = {"/openapi.json", *app.openapi()["paths"]}
    guard = Guard(app, limits, metrics, routes=routes, hosts=hosts, direct=direct)
    server = uvicorn.Server(
        uvicorn.Config(
            guard, http=GuardedProtocol, ws="none", log_config=None, access_log=False, server_header=False,
            proxy_headers=False, timeout_graceful_shutdown=10, lifespan="on",
        )
    )  # fmt: skip
    server.run([listening])
    if failed:
        raise failed[0]


def check_key_setting(key: str) -> str:
    """The key of the environment as it is, or nothing; one that no header could carry, or that is short, raises.

    Example:
        >>> check_key_setting("")
        ''
    """
    is_typed = key.isascii() and key.isprintable() and key == key.strip()
    if key and not (is_typed and KEY_LENGTHS[0] <= len(key) <= KEY_LENGTHS[1]):
        low, high = KEY_LENGTHS
        raise UserError(
            f"{KEY} has {len(key)} characters{'' if is_typed else ', not all of them plain ASCII'}; set it to "
            f"{low} to {high} ASCII letters, digits and signs, for example: openssl rand -hex 24"
        )
    return key


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise UserError(
            f"cannot listen at {host}, port {port} ({error.strerror or error}); choose another --port or --host"
        ) from error
