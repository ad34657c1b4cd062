"""MkDocs hook: the pages of the losses are written before the build and listed in the navigation."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def on_config(config):
    """Write the pages of losses and miners if they are not there, and put one line for each in the navigation."""
    pages = ROOT / "docs" / "losses"
    if not (pages / "index.md").exists():
        from docs.generator.losses import write_losses

        write_losses(ROOT / "docs")
    for section in config.nav:
        if "Losses" in section:
            known = section["Losses"]
            known += [{page.stem: f"losses/{page.name}"} for page in sorted(pages.glob("*.md")) if page.stem != "index"]
    return config
