"""Every relative link of README and docs leads to a file of the repository, and every anchor to a heading of it."""

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

from similis.registry import losses
from tests.docs.blocks import ROOT

LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.M | re.S)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.M)


def tracked() -> set[Path]:
    """Files that a clone has: tracked, or new and not ignored. Pages that the site generates are not among them."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip("needs a git checkout to know the files of the repository")
    return {ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).exists()}


def links(text: str) -> list[str]:
    """Targets of links and images outside of code, without those that leave the repository."""
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
    return [target for target in LINK.findall(prose) if not re.match(r"[a-z][a-z+.-]*:", target)]


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as the site and code hosts make them."""
    heads = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", head.lower()).strip()) for head in heads}


def dead_links(page: Path, files: set[Path]) -> list[str]:
    """The targets of a page that lead nowhere."""
    folders = {folder for file in files for folder in file.parents}
    dead = []
    for target in links(page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        file = (page.parent / unquote(name)).resolve() if name else page
        missing = file not in files and file not in folders
        if missing or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            dead.append(target)
    return dead


def test_every_relative_link_resolves():
    files = tracked()
    pages = sorted(
        f for f in files if f.suffix == ".md" and (f.parent == ROOT or {ROOT / "docs", ROOT / "results"} & {*f.parents})
    )
    assert ROOT / "README.md" in pages
    dead = {str(page.relative_to(ROOT)): found for page in pages if (found := dead_links(page, files))}
    assert dead == {}


def test_no_link_leads_to_a_file_that_only_imports():
    """On the site these are generated pages; in the repository a reader wants the folder, with a file for each name."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = {page.name: [t for t in links(page.read_text(encoding="utf-8")) if "objective" in t] for page in pages}
    assert any(found.values())
    assert [target for targets in found.values() for target in targets if target.endswith("__init__.py")] == []


def test_dead_links_are_found(tmp_path):
    """Links in code and to other hosts are left alone; a missing file and a missing heading are not."""
    other, page = tmp_path / "other.md", tmp_path / "page.md"
    other.write_text("# One head: `two`\n", encoding="utf-8")
    page.write_text(
        "# Page\n[a](other.md) [b](other.md#one-head-two) [c](#page) [d](https://x.org/y.md) `[e](no.md)`\n"
        "![f [x] g](gone.png) [h](other.md#gone) [i](#gone)\n```text\n[j](no.md)\n```\n",
        encoding="utf-8",
    )
    assert dead_links(page, {other, page}) == ["gone.png", "other.md#gone", "#gone"]


def test_the_page_of_documents_names_their_losses_miners_data_metrics_and_protocols():
    page = (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
    own = [e.name for e in losses if e.name in ("nca", "proxy_nca_pp", "proxy_gml") or "thesis" in e.presets]
    assert len(own) == 16
    named = [*own, "batch_hard", "semi_hard", "distance_weighted", "random", "disjoint_pairs", "all_triplets"]
    named += ["cub200_2011", "cars196", "sop", "Recall@k", "NMI", "pair F1"]
    named += ["`default`", "fixed-validation", "cross-validation"]
    assert [name for name in named if name not in page] == []
