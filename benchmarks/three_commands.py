"""From photos to a search page: ``python -m benchmarks.three_commands [--similis PROGRAM] [--json FILE]``.

Runs the three commands of README on Grocery photos, with ``similis`` of a clean environment if you name it, and opens
the page with Chromium. It then gives the page one photo of each product that is not in the collection, and counts the
right answers. ``SIMILIS_DATA`` names the folder of photos and weights; everything is below ``runs/three-commands``,
which must be new.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import similis
from benchmarks.grocery_photos import rows_outside, write_photos
from benchmarks.lite_weights import weights
from benchmarks.rounds import write_json
from tests.serving.browser import browsing, visiting
from tests.serving.page_actions import answered, jpeg, labels

PLACE = Path("runs/three-commands")
SHOWN = 5


def unseen_photos(folder: Path) -> dict[str, bytes]:
    """A Grocery photo of each product that has one outside that folder."""
    grocery = similis.open_data("grocery", allow_counts=True)
    return {name: grocery.read_bytes(rows[0]) for name, rows in rows_outside(grocery, folder).items()}


def run_commands(program: str) -> tuple[dict[str, float], subprocess.Popen[str], str]:
    """Seconds of each command, for the last one until the server is ready; the server and its address."""
    words = {
        "train": ["train", "photos/", "--weights", weights()],
        "export": ["export", "runs/", "my-search"],
        "serve": ["serve", "my-search", "--port", "0"],
    }
    seconds = {}
    for name, each in words.items():
        begun = time.perf_counter()
        command = subprocess.Popen([program, *each, "--json"], cwd=PLACE, stdout=subprocess.PIPE, text=True)
        told = command.stdout.readline()
        if not told or (name != "serve" and command.wait()):
            raise SystemExit(f"{program} {' '.join(each)} ended with exit code {command.wait()}")
        seconds[name] = time.perf_counter() - begun
    return seconds, command, json.loads(told)["address"].partition("/#")[0]


def ask_page(address: str, photos: dict[str, bytes]) -> dict[str, float]:
    """How often the page shows the right product, and the seconds until it shows anything."""
    first = among = 0
    with browsing() as browser, visiting(browser, address) as page:
        page.wait_for_selector("#items li")
        begun = time.perf_counter()
        for name, data in photos.items():
            with answered(page):
                page.set_input_files("#file", jpeg(data))
            shown = labels(page)[:SHOWN]
            first, among = first + (shown[0] == name), among + (name in shown)
    seconds = (time.perf_counter() - begun) / len(photos)
    return {"photos": len(photos), "first right": first, f"right among {SHOWN}": among, "seconds a photo": seconds}


def main() -> None:
    """Photos, commands, page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--similis", default="similis", help="the program of a clean environment")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    PLACE.mkdir(parents=True)
    write_photos(PLACE / "photos")
    seconds, server, address = run_commands(asked.similis)
    try:
        page = ask_page(address, unseen_photos(PLACE / "photos"))
    finally:
        server.terminate()
        server.wait()
    figures: dict[str, dict[str, Any]] = {"seconds": seconds, "page": page}
    figures["machine"] = {"cores": len(os.sched_getaffinity(0)), "images": len(list(PLACE.glob("photos/*/*")))}
    print(json.dumps(figures, indent=1))
    write_json(asked.json, "python -m benchmarks.three_commands", figures)


if __name__ == "__main__":
    main()
