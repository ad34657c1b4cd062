"""``similis search RUN QUERY``: the images most similar to a picture, by the model of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.options import Device, Loaders, Root
from similis.cli.screen import print_lines, show_table


def search(
    *,
    run: Annotated[Path, typer.Argument(help="The folder of a finished run, or of runs with one finished.")],
    query: Annotated[Path, typer.Argument(help="An image file.")],
    k: Annotated[int, typer.Option("-k", help="Number of images to find.", min=1)] = 8,
    sheet: Annotated[Path, typer.Option(help="Where the picture of the answer goes.")] = Path("search.png"),
    gallery: Annotated[str | None, typer.Option(help="Images, or an index, to search. [those of the run]")] = None,
    root: Root = None,
    workers: Loaders = 0,
    device: Device = "auto",
) -> Result:
    """Find the images most similar to a picture, without copies of the picture itself."""
    from similis.data.images import prepare
    from similis.data.items import open_item
    from similis.figures.contact_sheet import MOST_COLUMNS, Tile, draw_sheet
    from similis.model.export import open_gallery
    from similis.model.index_folder import ABOUT, load_index
    from similis.model.load import load
    from similis.model.pictures import SIDE, write_picture
    from similis.run.machine import Machine

    encoded = open_item(query)  # before the network is loaded: a wrong path is told at once
    indexed = gallery is not None and (Path(gallery) / ABOUT).is_file()
    data = None if indexed else open_gallery(run, gallery, Machine(data_root=root))
    model = load(run, device=device, workers=workers)
    index = load_index(str(gallery), model_hash=model.model_hash) if indexed else None
    if data is not None:
        model.add(data)
    near = model.search(query, k, copies=False, index=index)
    count = len(model.gallery) if index is None else len(index)
    rows = [(str(n), f"{hit.similarity:.4f}", str(hit.label), hit.id) for n, hit in enumerate(near, 1)]
    show_table(f"{query.name} among {count:,} images", ("rank", "similarity", "class", "image"), rows)
    if data is None or data.has("vector"):
        print_lines("no sheet: the gallery holds ready vectors and no images")
        return {"query": query, "images": count, "hits": near, "sheet": None}
    shown, places = near[: MOST_COLUMNS - 1], {path: row for row, path in enumerate(data.values("path"))}
    tiles = [Tile(prepare(encoded, resize=SIDE), query.name)]
    tiles += [
        Tile(prepare(data.read_bytes(places[hit.id]), resize=SIDE), f"{hit.similarity:.3f}\n{hit.label}")
        for hit in shown
    ]
    share = f" ({len(shown)} of {len(near):,} shown)" if len(shown) < len(near) else ""
    write_picture(draw_sheet([tiles], side=SIDE, title=f"{query.name} and the images most similar to it{share}"), sheet)
    print_lines(f"sheet  {sheet}{share}")
    return {"query": query, "images": count, "hits": near, "sheet": sheet}
