"""The pages that are not kept in the repository: losses, miners, the command line, the keys of a specification."""

from __future__ import annotations

from pathlib import Path

from docs.generator.command_line import command_line_page
from docs.generator.losses import miners_page, write_if_changed, write_losses
from docs.generator.specification import specification_page


def write_pages(docs: Path) -> int:
    """Write all of them; returns the number of files."""
    pages = {
        "miners.md": miners_page(),
        "command-line.md": command_line_page(),
        "specification.md": specification_page(),
    }
    for name, page in pages.items():
        write_if_changed(docs / name, page)
    return write_losses(docs) + len(pages)
