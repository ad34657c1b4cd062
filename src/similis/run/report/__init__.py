"""One offline page about a run: the answer, a map, neighbours before and after, confused classes, a threshold.

It is drawn from what the run folder keeps, without a network; the photos come from the data and may be left out.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from similis.data.images import prepare
from similis.run.report.contents import MOST, Named, collect
from similis.run.spec import ModelSpec
from similis.run.untouched import best_before, measured_networks, training_verdict
from similis.training.files import damage_error, replace_file
from similis.values import DataError, import_extra

SIDE, COLUMNS = 80, 25  # pixels of a photo on the page, photos in a line of the picture that holds them all
REPORT, POINTS = "report.html", "report-points.json"


def write_report(
    folder: Path,
    values: Mapping[str, Any],
    embeddings: Mapping[str, Tensor],
    sides: Mapping[str, Mapping[str, Tensor]],
    read: Callable[[int], bytes] | None,
) -> Path:
    """Write the report of a run.

    Args:
        folder: of the run.
        values: of ``result.json``.
        embeddings: of the test photos by the trained network.
        sides: what ``after`` and, where it is known, ``before`` have answered.
        read: row of the data -> bytes of its photo; None for a report without photos.
    """
    try:
        with (folder / "embeddings.csv").open(encoding="utf-8", newline="") as file:
            named = Named.of(csv.DictReader(file))
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise damage_error(folder / "embeddings.csv", error) from error
    found = collect(embeddings, sides, named)
    rows = found.pop("rows")
    picture = None if read is None else draw_photos(rows, read)
    points = json.dumps({"rows": rows, **found["map"]})
    replace_file(folder / POINTS, lambda beside: beside.write_text(points, encoding="utf-8"))
    jinja2, own = import_extra("jinja2", "plots"), ModelSpec(**values["spec"]["model"])
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("similis.run.report", "."), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    text = environment.get_template("page.html").render(
        name=folder.name, values=values, rows=measured_networks(values), answer=answer(values, own),
        large=len(named.paths) > MOST, data=found | {"picture": picture, "side": SIDE, "columns": COLUMNS},
        settings=values["spec"], best=best_before(values["before"]) if values["before"] else None,
        what=own.head if own.is_closed_form else "training",
    )  # fmt: skip
    replace_file(folder / REPORT, lambda beside: beside.write_text(text, encoding="utf-8"))
    return folder / REPORT


def has_report(path: Path, *, photos: bool) -> bool:
    """Whether a whole report is there, with photos or without as wanted."""
    text = path.read_bytes() if path.is_file() else b""
    return text.endswith(b"</html>\n") and (b'data-photos="yes"' in text[:200]) == photos


def answer(values: Mapping[str, Any], model: ModelSpec) -> tuple[str, str]:
    """The verdict: its first words, and the rest of its first sentence; the table has the other numbers."""
    if not values["before"]:
        return "Not compared", "The network before training was not measured on the same photos."
    head, _, rest = training_verdict(values["before"], model).partition(". ")[0].partition(": ")
    text = rest.removesuffix(".") + "."
    for row in values["before"]:
        if row["gain"] and "head" not in row and row is not best_before(values["before"]):
            value, low, high = (100 * part for part in row["gain"]["recall@1"])
            text += f" Against it at {row['pixels']} pixels: {value:+.1f} points ({low:+.1f} to {high:+.1f})."
    return head, text


def draw_photos(rows: Sequence[int], read: Callable[[int], bytes]) -> str:
    """All photos as squares in one picture, as a data URL; one that cannot be read stays grey."""
    lines = -(-len(rows) // COLUMNS)
    paper = np.full((lines * SIDE, COLUMNS * SIDE, 3), 128, dtype=np.uint8)
    for place, row in enumerate(rows):  # one after the other: a thousand large files need not fit the memory
        top, left = SIDE * (place // COLUMNS), SIDE * (place % COLUMNS)
        try:
            image = prepare(read(row), resize=SIDE)
        except DataError:
            continue
        up, side = ((length - SIDE) // 2 for length in image.shape[:2])
        paper[top : top + SIDE, left : left + SIDE] = image[up : up + SIDE, side : side + SIDE]
    held = io.BytesIO()
    import_extra("PIL.Image").fromarray(paper).save(held, "WEBP", quality=55)
    return "data:image/webp;base64," + base64.b64encode(held.getvalue()).decode()
