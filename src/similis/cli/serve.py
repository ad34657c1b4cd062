"""``similis serve BUNDLE``: a page and an HTTP API that search with a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import print_early


def serve(
    *,
    bundle: Annotated[Path, typer.Argument(help="The folder of `similis export` or of Model.save.")],
    host: Annotated[
        str, typer.Option(help="Address to listen at; others than loopback need SIMILIS_KEY.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 for any that is free.", min=0, max=65535)] = 8000,
    store: Annotated[Path | None, typer.Option(help="File of the collection. [BUNDLE/collection.sqlite]")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Take no changes.")] = False,
) -> None:
    """Serve a page and an HTTP API that search, enrol and forget; SIMILIS_KEY is the key for changes."""
    from similis.cli.screen import console
    from similis.values import UserError, import_extra

    for part in ("fastapi", "uvicorn", "httptools", "python_multipart"):
        import_extra(part)
    from similis.serving.server import serve as run

    if not bundle.is_dir():
        raise UserError(f"there is no folder {bundle}; give one that `similis export` wrote")

    console().print(f"loading {bundle}", markup=False, soft_wrap=True)

    def on_ready(address: str) -> None:
        print_early({"bundle": bundle, "address": address})
        console().print(f"serving {bundle} at {address}", markup=False, soft_wrap=True)

    run(bundle, host=host, port=port, store=store, read_only=read_only, on_ready=on_ready)
