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
from tests.serving.page_actions import answered, expect, jpeg, labels, notice, photo, upload

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
INK = "<b>ink</b>"


def test_an_upload_finds_its_class(page):
    expect(page.locator("#items li")).to_have_count(4 * EACH)
    upload(page, photo("tomato"))
    assert labels(page)[:EACH] == ["tomato"] * EACH
    expect(page.locator("#answer")).to_have_text(re.compile(r"^Looks like: tomato, (0\.9\d|1\.00)$"))
    similarities = [float(text) for text in page.locator("#items .number").all_inner_texts()]
    assert similarities == sorted(similarities, reverse=True)
    assert page.locator(".thumb img").first.evaluate("i => i.decode().then(() => i.naturalWidth)") > 0


def test_what_is_like_nothing_is_called_unknown(page):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    for _ in range(20):  # the server estimates what is unknown beside its work, and may not be done yet
        upload(page, {**photo("lemon"), "buffer": encode(Image.fromarray(noise))})
        if "Unknown" in page.inner_text("#answer"):
            break
    nearest = labels(page)
    expect(page.locator("#answer")).to_have_text(re.compile(r"^Unknown: nearest is "))
    assert page.inner_text("#answer").removeprefix("Unknown: nearest is ") in nearest[:5]


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
    before = labels(page), page.locator("#items .number").all_inner_texts()
    with answered(page):
        page.locator(".pick").nth(EACH + 1).click()
    name = before[0][EACH + 1]
    assert page.url.startswith(f"{page_address}/?id=")
    assert page.title().startswith(name)
    assert labels(page)[: EACH - 1] == [name] * (EACH - 1)  # the item itself is not among them
    there = labels(page)
    page.go_back()
    expect(page.locator("#picture")).to_have_attribute("alt", "Your photo")
    assert (labels(page), page.locator("#items .number").all_inner_texts()) == before
    page.go_forward()
    expect(page.locator("#picture")).to_have_attribute("alt", re.compile("continue from"))
    assert labels(page) == there
    page.reload()
    expect(page.locator("#picture")).to_have_attribute("alt", re.compile("continue from"))
    assert labels(page) == there
    page.go_back()  # the photo itself is gone with the reload
    expect(page.locator("#drop")).to_be_visible()


def test_the_reason_is_shown(page):
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
    below = page.locator("#items .below")
    page.focus("#slider")
    page.keyboard.press("Home")
    expect(below).to_have_count(0)
    expect(page.locator("#rates")).to_contain_text("of pairs of different classes are accepted, 0 % of pairs of one")
    page.keyboard.press("End")
    top = float(page.input_value("#slider"))
    shown = [float(text) for text in page.locator("#items .number").all_inner_texts()]
    expect(below).to_have_count(sum(each < top for each in shown))
    expect(page.locator("#rates")).to_contain_text(f"At {top:.2f}: 0 % of pairs of different classes")
    page.keyboard.press("ArrowLeft")
    assert float(page.input_value("#slider")) == pytest.approx(top - 0.01)
    for text in below.locator(".tag").all_inner_texts():  # not by colour alone
        assert text == "below threshold"
