"""``similis serve BUNDLE``: a page and an HTTP API that search with a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import print_early
from similis.cli.screen import print_lines
from similis.values import UserError, import_extra


def serve(
    *,
    bundle: Annotated[Path, typer.Argument(help="The folder of `similis export` or of Model.save.")],
    host: Annotated[str, typer.Option(help="Address; any but loopback needs SIMILIS_KEY.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for a free one.", min=0, max=65535)] = 8000,
    store: Annotated[Path | None, typer.Option(help="File of the collection. [BUNDLE/collection.sqlite]")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Take no changes.")] = False,
    gallery: Annotated[Path | None, typer.Option(help="Index to search, read-only. [the bundle's images]")] = None,
    keep_images: Annotated[
        bool, typer.Option("--keep-images", help="Keep added images, for `similis upgrade`.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Hash the files of the index before serving.")] = False,
) -> None:
    """Serve a page and an HTTP API that search, enrol and forget; SIMILIS_KEY is the key for changes."""
    for part in ("fastapi", "uvicorn", "httptools", "python_multipart"):
        import_extra(part)
    from similis.serving.server import serve as run

    if gallery is not None and store is not None:
        raise UserError("--gallery and --store are two collections; give one of them")
    if not bundle.is_dir():
        raise UserError(f"there is no folder {bundle}; give one that `similis export` wrote")

    print_lines(f"loading {bundle}")

    def on_ready(address: str) -> None:
        print_early({"bundle": bundle, "address": address})
        print_lines(f"serving {bundle} at {address}")

    run(
        bundle, host=host, port=port, store=store, read_only=read_only, index=gallery, verify=verify,
        keep_images=keep_images, on_ready=on_ready,
    )  # fmt: skip
