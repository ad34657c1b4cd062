"""Writes every page that follows from the code: ``python docs/generate.py``, before ``mkdocs build``.

Losses, their pictures and miners come from the registry, conformance from the tests' oracles and from
the peer library run side by side, errata with numbers computed on the spot.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]


def main() -> None:
    from docs.generator.conformance import conformance_page
    from docs.generator.errata import errata_page
    from docs.generator.losses import write_losses

    docs = ROOT / "docs"
    print("losses and miners:", write_losses(docs), "files")
    for name, page in {"errata.md": errata_page, "conformance.md": conformance_page}.items():
        (docs / name).write_text(page(), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
