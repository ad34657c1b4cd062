"""Pages of results, and the records beside them."""

import json

from tests.docs.blocks import ROOT

RESULTS = ROOT / "results"


def page_lines(name: str) -> list[str]:
    return (RESULTS / name).read_text(encoding="utf-8").splitlines()


def words_of(name: str) -> str:
    return " ".join((RESULTS / name).read_text(encoding="utf-8").split())


def figures(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))["figures"]


def interval(values: list[float], sign: str = "") -> str:
    value, low, high = (f"{100 * each:{sign}.1f}" for each in values)
    return f"{value} ({low} to {high})" if any(values) else ""
