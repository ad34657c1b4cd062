"""Searching on the page, in a real browser, against a real server on drawn photos."""

from __future__ import annotations

import json
import re
import urllib.request

import numpy as np
import pytest
from PIL import Image

from tests.serving.browser import CHROMIUM
from tests.serving.drawn_photos import EACH, beside, draw, encode
from tests.serving.page_actions import answered, expect, jpeg, labels, mark_threshold, notice, photo, scores, upload

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
INK = "<b>ink</b>"
FADED = """() => [...document.querySelectorAll("#items, #items *")].map(e => getComputedStyle(e))
  .filter(s => s.opacity !== "1" || s.filter !== "none" || s.mixBlendMode !== "normal").length"""


def test_an_upload_finds_its_class(page):
    expect(page.locator("#items li")).to_have_count(4 * EACH)
    upload(page, photo("tomato"))
    assert labels(page)[:EACH] == ["tomato"] * EACH
    expect(page.locator("#answer")).to_have_text(re.compile(r"^Looks like: tomato, (0\.9\d|1\.00)$"))
    assert scores(page) == sorted(scores(page), reverse=True)
    assert page.locator(".thumb img").first.evaluate("i => i.decode().then(() => i.naturalWidth)") > 0


def test_what_is_like_nothing_is_called_unknown(page):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    for _ in range(20):  # the server estimates what is unknown beside its work, and may not be done yet
        upload(page, {**photo("lemon"), "buffer": encode(Image.fromarray(noise))})
        if "Unknown" in page.inner_text("#answer"):
            break
    nearest = labels(page)
    expect(page.locator("#answer")).to_have_text(re.compile(r"^Unknown; most like "))
    assert page.inner_text("#answer").removeprefix("Unknown; most like ") in nearest[:5]
    expect(page.locator("#note")).to_have_text(re.compile(r"^[A-Z].*\d.*\.$"))


@pytest.mark.parametrize(
    ("answer", "headline", "note"),
    [
        ({"label": "aubergine", "nearest": "aubergine", "note": ""}, "Looks like: aubergine, 0.74", ""),
        ({"label": "aubergine", "nearest": "aubergine", "note": "the first is a fig"}, "Looks like: aubergine, 0.74",
         "The first is a fig."),
        ({"label": None, "nearest": "<i>fig</i>", "note": "All are far <b>away</b>."}, "Unknown; most like <i>fig</i>",
         "All are far <b>away</b>."),
        ({"label": None, "nearest": None, "note": "no item is near"}, "Unknown", "No item is near."),
    ],
    ids=["named", "named unlike the first hit", "unknown", "unknown and like nothing"],
)  # fmt: skip
def test_the_answer_is_the_headline_and_its_note_stands_below(page, answer, headline, note):
    def reply(route):
        got = route.fetch()
        route.fulfill(response=got, json={**got.json(), "answer": {"similarity": 0.7391, **answer}})

    page.route("**/v1/search", reply)
    upload(page, photo("tomato"))
    expect(page.locator("#answer")).to_have_text(headline)
    expect(page.locator("#note")).to_have_text(note)
    expect(page.locator("#note")).to_be_visible(visible=bool(note))
    large, small = page.evaluate("['answer', 'note'].map(id => parseFloat(getComputedStyle($(id)).fontSize))")
    assert large > small
    page.click("#again")
    expect(page.locator("#note")).to_be_hidden()


def test_no_tile_ever_loses_its_colours(page):
    upload(page, photo("tomato"))
    assert page.evaluate(FADED) == 0
    mark_threshold(page)
    page.focus("#slider")
    page.keyboard.press("End")
    expect(page.locator(".divider")).to_be_visible()
    assert page.evaluate(FADED) == 0
    held = {}
    page.route("**/v1/search", lambda route: held.update(search=route))
    page.locator(".pick").last.click()
    expect(page.locator("body")).to_have_attribute("aria-busy", "true")
    page.wait_for_timeout(600)  # a change of the style may be delayed
    assert page.evaluate(FADED) == 0
    with answered(page):
        held["search"].continue_()


def test_the_threshold_is_off_until_it_is_switched_on(page):
    upload(page, photo("tomato"))
    switch = page.get_by_role("checkbox", name="Show a line between same and different")
    expect(switch).not_to_be_checked()
    expect(page.locator("#slider")).to_be_hidden()
    expect(page.locator("#summary")).to_have_text("12 items, most similar first")
    assert page.get_by_role("button", name=re.compile("threshold")).count() == 0
    expect(page.locator(".divider")).to_have_count(0)
    switch.press("Space")
    limit = float(page.input_value("#slider"))
    above = sum(each >= limit for each in scores(page))
    assert 0 < above < 12
    expect(page.locator("#summary")).to_have_text(f"{above} of 12 at or above {limit:.2f}")
    expect(page.locator("#said")).to_have_text(f"{above} of 12 at or above {limit:.2f}")
    expect(page.locator("#items > li").nth(above)).to_have_text(f"Below {limit:.2f}: different")
    assert page.locator("#items > li").count() == 13
    assert page.get_by_role("button", name=re.compile("similarity .*, below the threshold$")).count() == 12 - above
    with answered(page):
        page.locator(".pick").last.click()
    expect(switch).to_be_checked()  # for as long as the page is open
    switch.uncheck()
    expect(page.locator("#slider")).to_be_hidden()
    expect(page.locator(".divider")).to_have_count(0)
    assert page.get_by_role("button", name=re.compile("below the threshold")).count() == 0
    switch.check()
    page.reload()
    expect(page.locator("#query")).to_be_visible()
    expect(switch).not_to_be_checked()


def test_a_label_is_shown_as_text(page):
    upload(page, photo(INK))
    assert labels(page)[0] == INK
    expect(page.locator("#answer")).to_contain_text(INK)
    assert page.locator("#items .name b, #answer b b").count() == 0


@pytest.mark.parametrize("way", ["keys", "button"])
def test_a_photo_is_pasted(page, way):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate(
        """bytes => navigator.clipboard.write([
             new ClipboardItem({"image/png": new Blob([new Uint8Array(bytes)], {type: "image/png"})})])""",
        list(encode(draw("lemon", 51))),
    )
    with answered(page):
        page.keyboard.press("Control+V") if way == "keys" else page.click("#paste")
    assert labels(page)[:EACH] == ["lemon"] * EACH


def test_a_photo_is_dropped(page):
    move = page.evaluate_handle(
        """bytes => { const move = new DataTransfer();
             move.items.add(new File([new Uint8Array(bytes)], "a.png", {type: "image/png"})); return move }""",
        list(encode(draw("lemon", 51))),
    )
    with answered(page):
        page.dispatch_event("body", "drop", {"dataTransfer": move})
    assert labels(page)[:EACH] == ["lemon"] * EACH


def test_clicking_through_and_back(page, page_address):
    upload(page, photo("tomato"))
    before = labels(page), scores(page)
    with answered(page):
        page.locator(".pick").nth(EACH + 1).click()
    name = before[0][EACH + 1]
    assert page.url.startswith(f"{page_address}/?id=")
    assert page.title().startswith(name)
    assert labels(page)[: EACH - 1] == [name] * (EACH - 1)  # the item itself is not among them
    there = labels(page)
    page.go_back()
    expect(page.locator("#picture")).to_have_attribute("alt", "Your photo")
    assert (labels(page), scores(page)) == before
    page.go_forward()
    expect(page.locator("#picture")).to_have_attribute("alt", re.compile("continue from"))
    assert labels(page) == there
    page.reload()
    expect(page.locator("#picture")).to_have_attribute("alt", re.compile("continue from"))
    assert labels(page) == there
    page.go_back()  # the photo itself is gone with the reload
    expect(page.locator("#drop")).to_be_visible()


def test_the_reason_is_shown(page):
    replies = []
    page.on("response", lambda reply: replies.append(reply) if reply.url.endswith("/v1/search") else None)

    def caption_of(number):
        tile = page.locator("#items li").nth(number)
        tile.get_by_text("Why?").click()
        page.wait_for_selector("#why-picture[src]")
        caption, hit = page.inner_text("#why-text"), replies[-1].json()["hits"][number]
        assert f"similarity {tile.locator('.number').inner_text()}." in caption
        return caption, hit["id"]

    upload(page, photo("tomato", "from the market.png"))
    for number in (11, 0):
        caption, item = caption_of(number)
        assert caption.startswith(f"from the market.png and {item}: ")
        assert f"the small picture of {item} that the collection keeps, not the original." in caption
        page.keyboard.press("Escape")
    with answered(page):
        page.locator(".pick").nth(0).click()
    caption, other = caption_of(1)
    assert other != item
    assert caption.startswith(f"{item} and {other}: ")
    assert "the small pictures that the collection keeps, not the originals." in caption
    page.keyboard.press("Escape")


def test_the_picture_of_the_reason_can_be_seen_and_closed(page):
    upload(page, photo("tomato"))
    page.get_by_role("button", name="Why is tomato similar?").first.click()
    picture = page.locator("#why-picture[src]")
    expect(picture).to_have_attribute("alt", re.compile("lit where they are similar"))
    assert picture.evaluate("i => i.decode().then(() => i.naturalWidth)") > 100
    page.keyboard.press("Escape")
    expect(page.locator("#why")).to_be_hidden()
    expect(page.locator("#query")).to_be_visible()  # Escape has closed the dialog and nothing else


@pytest.mark.parametrize(
    "file",
    [beside("tomato", "oat milk"), beside("tomato", "oat milk", turned=True),
     beside("tomato", "oat milk", height=1500, turned=True)],
    ids=["upright", "turned by EXIF", "turned, and made smaller before it is sent"],
)  # fmt: skip
def test_a_box_searches_its_part(page, file):
    upload(page, jpeg(file))
    area = page.locator("#photo").bounding_box()
    assert area["width"] > 1.8 * area["height"]  # shown upright

    def drag(x0, y0, x1, y1):
        page.mouse.move(area["x"] + x0 * area["width"], area["y"] + y0 * area["height"])
        page.mouse.down()
        page.mouse.move(area["x"] + x1 * area["width"], area["y"] + y1 * area["height"], steps=3)
        with answered(page):
            page.mouse.up()

    drag(0.51, 0.02, 0.99, 0.98)
    assert labels(page)[:EACH] == ["oat milk"] * EACH
    drag(0.02, 0.02, 0.49, 0.98)
    assert labels(page)[:EACH] == ["tomato"] * EACH
    page.go_back()
    expect(page.locator("#box")).to_be_hidden()


def test_a_label_is_the_filter(page):
    upload(page, photo("tomato"))
    with answered(page):
        page.fill("#filter", "lemon")
    assert labels(page) == ["lemon"] * EACH
    page.fill("#filter", "nothing")
    page.keyboard.press("Enter")
    expect(notice(page)).to_contain_text("No item has the label “nothing”")
    with answered(page):
        page.fill("#filter", "")
    assert set(labels(page)) > {"lemon"}
    page.click("#again")
    page.fill("#filter", "oat milk")
    expect(page.locator("#items li")).to_have_count(EACH)
    assert set(labels(page)) == {"oat milk"}


def test_the_slider_tells_its_error_rates(page, page_address):
    with urllib.request.urlopen(f"{page_address}/v1/model") as reply:
        rates = json.load(reply)["rates"]
    assert len(rates) > 2
    upload(page, photo("tomato"))
    below = page.locator(".divider ~ li")
    mark_threshold(page)
    page.focus("#slider")
    page.keyboard.press("Home")
    expect(page.locator(".divider")).to_have_count(0)
    expect(page.locator("#rates")).to_contain_text("of pairs of different classes are accepted, 0 % of pairs of one")
    page.keyboard.press("End")
    top = float(page.input_value("#slider"))
    expect(below).to_have_count(sum(each < top for each in scores(page)))
    expect(page.locator("#rates")).to_contain_text(f"At {top:.2f}: 0 % of pairs of different classes")
    page.keyboard.press("ArrowLeft")
    assert float(page.input_value("#slider")) == pytest.approx(top - 0.01)
    expect(page.locator(".divider")).to_have_text(f"Below {top - 0.01:.2f}: different")
