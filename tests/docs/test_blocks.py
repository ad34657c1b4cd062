"""What README and site show is run: Python blocks in order, and every ``similis`` line of shell blocks."""

import pytest

from similis.cli import main
from tests.docs.blocks import ROOT, SHELL, blocks, commands, pages

PAGES = [page for page in pages() if blocks(page.read_text(encoding="utf-8"))]


@pytest.fixture(autouse=True)
def _clean_registry(tmp_path, monkeypatch):
    """Run in an empty folder; losses that a page registers as an example leave the registry afterwards."""
    from similis.registry import losses

    losses.fill()
    monkeypatch.setattr(losses, "_entries", dict(losses._entries))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page):
    """Blocks of one page share their names, as a reader would run them."""
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind == "python":
            source = "\n" * block.line + block.text  # tracebacks show the line of the page
            exec(compile(source, str(page), "exec", dont_inherit=True), names)
            continue
        for words in commands(block):
            with pytest.raises(SystemExit) as end:
                main(words)
            assert end.value.code in (0, None), f"{page.name}:{block.line}: similis {' '.join(words)}"


def test_the_site_has_blocks_of_both_kinds():
    kinds = {block.kind for page in PAGES for block in blocks(page.read_text(encoding="utf-8"))}
    assert "python" in kinds
    assert kinds & set(SHELL)


def test_blocks_are_found_and_marked_ones_left_out():
    text = (
        "```python\na\n```\n\n"
        "<!-- not run: needs photos -->\n```bash\nsimilis x\n```\n\n"
        "```console\n$ similis y \\\n  z # why\nout\n```\n"
    )
    found = blocks(text)
    assert [block.kind for block in found] == ["python", "console"]
    assert commands(found[1]) == [["y", "z"]]
