"""MkDocs hook: pages of the losses are written before the build, and the pages of ``results/`` join the site."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.structure.files import File

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


def on_files(files, config):
    """Add pages, figures and plans of ``results/``, which lies beside ``docs/``."""
    for path in sorted((ROOT / "results").rglob("*")):
        if path.is_file():
            name = path.relative_to(ROOT).as_posix()
            files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown, page, **_):
    """On the site ``results/`` lies inside of what ``docs/`` is in the repository: links lose one step."""
    if page.file.src_uri.startswith("results/"):
        return markdown.replace("](../docs/", "](../").replace("](../../docs/", "](../../")
    return markdown.replace("](../results/", "](results/").replace("](../../results/", "](../results/")
