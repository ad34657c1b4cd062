"""The page by keyboard alone, by touch, at phone width, and before axe-core's rules."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from tests.serving.browser import CHROMIUM, DESKTOP, KEY, PHONE, visiting
from tests.serving.drawn_photos import EACH, beside
from tests.serving.page_actions import answered, expect, jpeg, labels, mark_threshold, notice, photo, scores, upload

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
WITH_KEY = f"/#key={KEY.replace(' ', '%20')}"
TARGET = 44  # pixels of a side
TARGETS = """() => [...document.querySelectorAll("button, input, summary, a")]
  .filter(e => e.checkVisibility() && !e.matches(".skip"))
  .map(e => [e.outerHTML.slice(0, 80), e.getBoundingClientRect().width, e.getBoundingClientRect().height])"""


def violations(page):
    """What axe-core finds wrong, as short texts."""
    script = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(script)  # as a debugger would: the page's own policy admits no other script
    found = json.loads(page.evaluate("() => axe.run().then(r => JSON.stringify(r.violations))"))
    return [f"{rule['id']}: {node['html'][:120]}" for rule in found for node in rule["nodes"]]


def test_a_search_by_keyboard_alone(browser, page_address):
    with visiting(browser, page_address, path=WITH_KEY) as page:
        press = page.keyboard.press
        focused = page.locator(":focus")
        page.on("filechooser", lambda _: None)  # from now on choosers are caught, so that none is missed below
        expect(page.locator("#items li").first).to_be_visible()
        press("Tab")
        expect(focused).to_have_text("Skip to the items")
        while focused.get_attribute("id") != "choose":
            press("Tab")
        with page.expect_file_chooser() as chooser:
            press("Enter")
        with answered(page):
            chooser.value.set_files(photo("tomato"))
        expect(page.locator("#heading")).to_be_focused()
        press("Tab")
        expect(page.locator(".pick").first).to_be_focused()
        columns = page.locator("#items").evaluate("e => getComputedStyle(e).gridTemplateColumns.split(' ').length")
        moves = {"Right": 1, "Down": 1 + columns, "Up": 1, "Left": 0}
        for key, at in (*moves.items(), ("Left", 0), ("End", 11), ("Down", 11), ("Home", 0), ("Down", columns)):
            press(key if key in ("Home", "End") else f"Arrow{key}")
            expect(page.locator(".pick").nth(at)).to_be_focused()
        press("Tab")
        press("Enter")
        expect(page.locator("#why")).to_be_visible()
        press("Escape")
        expect(focused).to_have_text("Why?")
        press("Shift+Tab")
        with answered(page):
            press("Enter")
        expect(page.locator("#picture")).to_have_attribute("alt", "The item you continue from: tomato")
        expect(page.locator(".pick").first).to_be_focused()
        press("Escape")
        expect(page.locator("#picture")).to_have_attribute("alt", "Your photo")
        expect(page.locator(".pick").nth(columns)).to_be_focused()  # where it was left


def test_the_arrows_cross_the_line_of_the_threshold(browser, page_address):
    with visiting(browser, page_address) as page:
        upload(page, photo("tomato"))
        mark_threshold(page)
        above = sum(each >= float(page.input_value("#slider")) for each in scores(page))
        columns = page.locator("#items").evaluate("e => getComputedStyle(e).gridTemplateColumns.split(' ').length")
        assert above % columns  # the line ends a row early
        lone, picks = above - above % columns, page.locator(".pick")
        picks.nth(lone).focus()
        for key, at in (("Down", above), ("Up", lone), ("Up", lone - columns), ("End", 11), ("Down", 11)):
            page.keyboard.press(key if key == "End" else f"Arrow{key}")
            expect(picks.nth(at)).to_be_focused()
        picks.nth(above + columns - 1).focus()  # nothing stands right above it
        page.keyboard.press("ArrowUp")
        expect(picks.nth(above - 1)).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#why")).to_be_visible()


def test_a_part_is_searched_by_keyboard(browser, page_address):
    with visiting(browser, page_address) as page:
        upload(page, jpeg(beside("tomato", "oat milk")))
        page.focus("#part")
        page.keyboard.press("Enter")
        expect(page.locator("#box")).to_be_focused()
        for key in ["Shift+ArrowLeft"] * 7 + ["ArrowRight"] * 20:  # from 20..80 to 54..100 per cent
            page.keyboard.press(key)
        expect(page.locator("#said")).to_have_text("Left 54, top 20, right 100, bottom 80 percent")
        with answered(page):
            page.keyboard.press("Enter")
        assert labels(page)[0] == "oat milk"
        page.focus("#box")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Escape")  # gives the box up
        expect(page.locator("#box")).to_be_hidden()


def test_a_part_is_searched_by_touch(browser, page_address):
    with visiting(browser, page_address, **PHONE) as page:
        upload(page, jpeg(beside("tomato", "oat milk")))
        finger = page.context.new_cdp_session(page)

        def drag(x0, y0, x1, y1):
            area = page.locator("#photo").bounding_box()
            points = [(area["x"] + x * area["width"], area["y"] + y * area["height"]) for x, y in ((x0, y0), (x1, y1))]
            for kind, at in (("touchStart", points[:1]), ("touchMove", points[1:]), ("touchEnd", [])):
                spots = [{"x": x, "y": y} for x, y in at]
                finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": spots})

        drag(0.5, 0.1, 0.9, 0.9)
        expect(page.locator("#box")).to_be_hidden()  # a finger scrolls until a part is asked for
        page.evaluate("() => scrollTo(0, 0)")
        page.tap("#part")
        with answered(page):
            drag(0.2, 0.2, 0.52, 0.02)  # the corner at the top left, past the middle
        assert labels(page)[0] == "oat milk"


@pytest.mark.parametrize(("scheme", "device"), [("light", DESKTOP), ("dark", PHONE)], ids=["light", "dark"])
def test_axe_finds_nothing(browser, page_address, scheme, device):
    options = {**device, "color_scheme": scheme, "reduced_motion": "reduce"}
    with visiting(browser, page_address, path=WITH_KEY, refusals=True, **options) as page:
        expect(page.locator("#items li").first).to_be_visible()
        assert violations(page) == [], "the collection"
        upload(page, photo("tomato"))
        for part in ("#tools", "#editing"):
            if page.get_attribute(part, "open") is None:
                page.click(f"{part} summary")
        assert violations(page) == [], "what was found"
        mark_threshold(page)
        expect(page.locator(".divider")).to_be_visible()
        assert violations(page) == [], "the threshold"
        page.click("#part")
        assert violations(page) == [], "a part"
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Why is tomato similar?").first.click()
        assert violations(page) == [], "why"
        page.keyboard.press("Escape")
        page.set_input_files("#file", jpeg(b"no photo"))
        expect(notice(page)).to_contain_text("Choose")
        assert violations(page) == [], "an error"


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_targets_are_large_and_nothing_scrolls_sideways(browser, page_address, device):
    with visiting(browser, page_address, path=WITH_KEY, **device) as page:
        for number in range(2):
            expect(page.locator("#items li").first).to_be_visible()
            small = [each for each in page.evaluate(TARGETS) if min(each[1:]) < TARGET]
            assert small == []
            assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
            if number == 0:
                upload(page, photo("tomato"))
                mark_threshold(page)
                expect(page.locator("#slider")).to_be_visible()


def test_the_camera_is_offered_on_phones(browser, page_address):
    for device, is_shown in ((DESKTOP, False), (PHONE, True)):
        with visiting(browser, page_address, **device) as page:
            expect(page.locator("#items li")).to_have_count(4 * EACH)
            assert page.locator("#shoot").is_visible() == is_shown
            assert page.get_attribute("#camera", "capture") == "environment"
