"""Writes the three generated pages that the repository keeps: ``python docs/generate.py``.

Conformance comes from the tests' oracles and from the peer library run side by side, errata with numbers computed on
the spot. All other generated pages are written by ``mkdocs build`` itself (``docs/hooks.py``).
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]


def main() -> None:
    from docs.generator.conformance import conformance_page
    from docs.generator.errata import errata_page
    from docs.generator.gallery import gallery_page

    docs = ROOT / "docs"
    pages = {"errata.md": errata_page, "gallery.md": gallery_page, "conformance.md": conformance_page}
    for name, page in pages.items():
        (docs / name).write_text(page(), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
