"""The pictures of docs/serving.md: ``python -m benchmarks.page_pictures --bundle FOLDER [--folder docs/pictures]``.

Serves a bundle of photos of Grocery products, and photographs the page with Chromium. The query is a photo that
``benchmarks.three_commands`` has left out. ``SIMILIS_DATA`` names the folder of photos; everything is kept below
``runs/page``.
"""

from __future__ import annotations

import argparse
import io
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

import similis
from benchmarks.grocery_photos import rows_outside
from benchmarks.three_commands import PLACE as COMMANDS
from tests.serving.browser import KEY, PHONE, browsing, visiting
from tests.serving.drawn_photos import save_collection
from tests.serving.running import Server

PLACE = Path("runs/page")
MOST = 150_000  # bytes of a picture
WAIT = 400  # milliseconds, until thumbnails are drawn


def write_query(folder: Path, kind: str, number: int) -> Path:
    """A photo of a product that is not in the collection."""
    grocery = similis.open_data("grocery", allow_counts=True)
    file = folder / f"{kind}-{number}.jpg"
    file.write_bytes(grocery.read_bytes(rows_outside(grocery, COMMANDS / "photos")[kind][number]))
    return file


def shot(page: Any) -> Image.Image:
    """What the window shows."""
    page.wait_for_timeout(WAIT)
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def search(page: Any, file: Path) -> None:
    """Choose a photo and wait for what is found."""
    page.set_input_files("#file", file)
    page.wait_for_selector("#query:not([hidden])")


def join(pictures: Sequence[Image.Image], gap: int = 24) -> Image.Image:
    """Pictures side by side."""
    sheet = Image.new("RGB", (sum(p.width + gap for p in pictures) - gap, pictures[0].height), "#8b867d")
    left = 0
    for picture in pictures:
        sheet.paste(picture, (left, 0))
        left += picture.width + gap
    return sheet


def save(picture: Image.Image, path: Path) -> None:
    """A JPEG at the best quality that is small enough."""
    for quality in range(88, 30, -4):
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=quality, optimize=True, progressive=True)
        if file.tell() <= MOST:
            break
    path.write_bytes(file.getvalue())
    print(f"{path}: {picture.width} x {picture.height}, {file.tell():,} bytes, quality {quality}")


def on_desktop(browser: Any, address: str, query: Path, folder: Path) -> None:
    """What was found in light, a part and the reason in dark."""
    with visiting(browser, address, path="/#key=shown", color_scheme="light") as page:
        search(page, query)
        save(shot(page), folder / "page-desktop.jpg")
    with visiting(browser, address, color_scheme="dark") as page:
        search(page, query)
        page.wait_for_timeout(WAIT)
        area = page.locator("#photo").bounding_box()
        page.mouse.move(area["x"] + 0.05 * area["width"], area["y"] + 0.05 * area["height"])
        page.mouse.down()
        page.mouse.move(area["x"] + 0.62 * area["width"], area["y"] + 0.95 * area["height"], steps=4)
        with page.expect_response("**/v1/search"):
            page.mouse.up()
        save(shot(page), folder / "page-dark.jpg")
        page.locator("#items .tools button").first.click()
        page.wait_for_selector("#why-picture[src]")
        save(shot(page), folder / "page-why.jpg")


def on_phone(browser: Any, address: str, query: Path, folder: Path) -> None:
    """The beginning, and what was found."""
    phone = {**PHONE, "device_scale_factor": 1.5, "color_scheme": "light"}
    with visiting(browser, address, path="/#key=shown", **phone) as page:
        page.wait_for_selector("#items li")
        pictures = [shot(page)]
        search(page, query)
        pictures.append(shot(page))
        page.click("#tools summary")
        page.locator("#tools").scroll_into_view_if_needed()
        page.evaluate("scrollTo(0, document.getElementById('tools').getBoundingClientRect().top + scrollY - 76)")
        pictures.append(shot(page))
    save(join(pictures), folder / "page-phone.jpg")


def on_errors(browser: Any, bundle: Path, place: Path, query: Path, folder: Path) -> None:
    """No photo, no server, no items."""
    phone, pictures = {**PHONE, "device_scale_factor": 1.5, "color_scheme": "light"}, []
    with Server(bundle, key=KEY) as server, visiting(browser, server.address, refusals=True, **phone) as page:
        search(page, query)
        page.set_input_files("#file", {"name": "notes.jpg", "mimeType": "image/jpeg", "buffer": b"not a photo"})
        page.wait_for_selector("#notice .error")
        pictures.append(shot(page))
        server.stop(signal.SIGTERM)
        page.locator(".pick").first.click()
        page.wait_for_selector("text=The server does not answer")
        pictures.append(shot(page))
    empty = save_collection(place / "empty", each=0)
    with Server(empty, key=KEY) as server, visiting(browser, server.address, **phone) as page:
        page.wait_for_selector("#empty:not([hidden])")
        pictures.append(shot(page))
    save(join(pictures), folder / "page-errors.jpg")


def main() -> None:
    """Photos, bundle, pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, required=True, help="of a model of Grocery photos")
    parser.add_argument("--folder", type=Path, default=Path("docs/pictures"))
    asked = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    query = write_query(PLACE, "Red-Bell-Pepper", 1)
    with browsing() as browser:
        with Server(asked.bundle, key=KEY) as server:
            on_desktop(browser, server.address, query, asked.folder)
            on_phone(browser, server.address, query, asked.folder)
        on_errors(browser, asked.bundle, PLACE, query, asked.folder)


if __name__ == "__main__":
    main()
