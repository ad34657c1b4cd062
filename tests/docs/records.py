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
