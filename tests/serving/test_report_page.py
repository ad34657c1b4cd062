"""The report of a run in a browser: map, neighbours, classes and threshold, by mouse and by keyboard."""

import json

import pytest

from tests.run.small import ran
from tests.serving.browser import PHONE, visiting
from tests.serving.test_page_access import violations

FILTERS = {"fixed": (0, 1), "broken": (1, 0), "still wrong": (0, 0), "still right": (1, 1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run with its report."""
    return ran(tmp_path_factory.mktemp("runs")).report().parent


@pytest.fixture
def page(browser, folder):
    with visiting(browser, folder.as_uri(), path="/report.html", reduced_motion="reduce") as found:
        yield found


def query_of(page):
    return page.evaluate("query")


def test_the_points_are_the_recorded_ones_and_the_switch_moves_them(page, folder):
    points = json.loads((folder / "report-points.json").read_text())
    assert page.evaluate("data.map") == {side: points[side] for side in ("before", "after")}
    after = page.evaluate("data.photos.map((_, photo) => onScreen(photo))")
    page.get_by_role("group", name="Map").get_by_role("button", name="Before").click()
    before = page.evaluate("data.photos.map((_, photo) => onScreen(photo))")
    assert before != after
    for side, places in (("before", before), ("after", after)):  # in the order of the recorded coordinates
        for axis in (0, 1):
            order = sorted(range(len(places)), key=lambda photo: points[side][photo][axis])
            drawn = [round(places[photo][axis], 9) for photo in order]
            assert drawn == sorted(drawn)


def test_hover_names_a_photo_and_a_click_asks_for_its_neighbours(page):
    x, y = page.evaluate("onScreen(7)")
    nearest = page.evaluate(f"nearest({x}, {y}, 1)")
    page.locator("canvas").hover(position={"x": x, "y": y})
    assert page.locator("#tip").inner_text().startswith(page.evaluate(f"nameOf({nearest})"))
    page.locator("canvas").click(position={"x": x, "y": y})
    assert query_of(page) == nearest
    first = page.locator("#near ol").last.get_by_role("button").first
    wanted = page.evaluate(f"answers.after[{nearest}][1][0]")
    first.click()
    assert query_of(page) == wanted


def test_the_words_of_the_answer_choose_a_filter_and_a_photo_outside_of_it_shows_all(page):
    page.get_by_role("button", name="fixed").first.click()
    assert page.locator("#filters [aria-pressed=true]").inner_text().startswith("fixed")
    outside = page.evaluate("asked.find((photo) => !FILTERS.fixed(photo))")
    page.evaluate(f"ask({outside})")
    assert page.locator("#filters [aria-pressed=true]").inner_text().startswith("all")
    assert page.locator("#position").inner_text().startswith(f"{page.evaluate(f'asked.indexOf({outside})') + 1} of")


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_lists_its_queries_and_no_other(page, name):
    wanted = page.evaluate(
        "([before, after]) => asked.filter((p) => answers.before[p][0] === before && answers.after[p][0] === after)",
        list(FILTERS[name]),
    )
    button = page.get_by_role("button", name=f"{name} ({len(wanted)})")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    if not wanted:
        assert page.locator("#near").inner_text() == f"No query of this file is {name}."
        return
    seen = []
    for _ in wanted:
        seen.append(query_of(page))
        page.get_by_role("button", name="Next").click()
    assert seen == wanted


def test_the_threshold_tells_the_rates_of_the_counted_pairs(page):
    page.locator("#slider").focus()
    before = page.locator("#rates").inner_text()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    told, at = page.locator("#rates").inner_text(), float(page.locator("#threshold").inner_text())
    assert told != before
    counts = page.evaluate("data.similarities.after")
    cut = round((at + 1) * 100)
    accepted = 100 * sum(counts["different"][cut:]) / sum(counts["different"])
    missed = 100 * sum(counts["same"][:cut]) / sum(counts["same"])
    assert f"{accepted:.1f} % of the pairs of different classes pass" in told
    assert f"{missed:.1f} % of the pairs of one class are missed" in told


def test_classes_are_sorted_by_any_column(page):
    page.locator("#classes").get_by_role("button", name="class").click()
    names = page.locator("#classes tbody td:first-child").all_inner_texts()
    assert names == sorted(names)
    assert page.locator("#classes th").first.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")
    assert page.locator("#classes tbody td:first-child").all_inner_texts() == names[::-1]


def test_the_map_by_keyboard(page):
    page.locator("canvas").focus()
    start = page.evaluate("onScreen(0)")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("onScreen(0)") != start
    page.keyboard.press("Enter")
    assert query_of(page) == page.evaluate("nearest(canvas.clientWidth / 2, canvas.clientHeight / 2, Infinity)")


@pytest.mark.parametrize(
    ("scheme", "device"), [("light", {}), ("dark", {**PHONE, "viewport": {"width": 390, "height": 844}})],
    ids=["wide", "phone"],
)  # fmt: skip
def test_axe_finds_nothing(browser, folder, scheme, device):
    with visiting(browser, folder.as_uri(), path="/report.html", color_scheme=scheme, **device) as page:
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
