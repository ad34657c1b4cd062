"""The page with and without a key, and when something is missing or goes wrong."""

from __future__ import annotations

import json
import signal
import urllib.request

import pytest

from tests.serving.browser import CHROMIUM, KEY, visiting
from tests.serving.drawn_photos import EACH, beside, save_collection
from tests.serving.page_actions import answered, expect, jpeg, labels, notice, photo, upload
from tests.serving.running import Server

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
WITH_KEY = f"/#key={KEY.replace(' ', '%20')}"


def test_adding_and_forgetting_with_the_key(browser, page_address):
    with visiting(browser, page_address, path=WITH_KEY) as page:
        expect(page.locator("#items li").first).to_be_visible()
        assert page.url == f"{page_address}/"
        upload(page, photo("lemon", "melon.png"))
        page.fill("#label", "melon")
        page.click("#add")
        expect(notice(page)).to_contain_text("Added under “melon”")
        expect(page.locator("#items .name").first).to_have_text("melon")
        expect(page.locator("#about")).to_contain_text(f"{4 * EACH + 1} items, 5 labels")
        notice(page).get_by_role("button", name="Undo").click()
        expect(page.locator("#about")).to_contain_text(f"{4 * EACH} items, 4 labels")
        for _ in range(2):
            page.fill("#label", "melon")
            page.click("#add")
            expect(page.locator("#items .name").first).to_have_text("melon")
            page.get_by_role("button", name="Forget this item: melon").first.click()
            page.get_by_role("button", name="Forget", exact=True).click()
            expect(notice(page)).to_contain_text("Forgotten")
            assert "melon" not in labels(page)
        page.fill("#label", "melon")
        page.click("#add")
        expect(notice(page)).to_contain_text("Added under “melon”")
        page.fill("#filter", "melon")
        page.click("#forget-label")
        page.get_by_role("button", name="Forget", exact=True).click()
        expect(page.locator("#about")).to_contain_text(f"{4 * EACH} items, 4 labels")
        expect(page.locator("#filter")).to_have_value("")
        page.reload()  # the key is kept for the tab
        expect(page.locator("#key-button")).to_have_text("Lock editing")
        page.evaluate("location.hash = 'key=another'")  # typed into the address bar of a page that is open
        expect(page).to_have_url(f"{page_address}/")


def test_nothing_is_written_without_the_key(browser, page_address):
    with visiting(browser, page_address, refusals=True) as page:
        upload(page, photo("lemon"))
        expect(page.locator("#enrol")).to_be_hidden()
        assert page.locator(".bin:visible").count() == 0
        page.click("#unlock")
        page.fill("#key-text", "a wrong key")
        page.keyboard.press("Enter")
        page.fill("#label", "melon")
        page.click("#add")
        expect(notice(page)).to_contain_text("The key was refused")
        expect(page.locator("#enrol")).to_be_hidden()
        notice(page).get_by_role("button", name="Enter the key").click()
        expect(page.locator("#key-text")).to_be_focused()
        with urllib.request.urlopen(f"{page_address}/v1/model") as reply:
            assert json.load(reply)["items"] == 4 * EACH


def test_a_server_that_only_reads_offers_no_editing(browser, page_folder):
    with (
        Server(page_folder, key=KEY, read_only=True) as server,
        visiting(browser, server.address, path="/#key=any") as page,
    ):
        upload(page, photo("lemon"))
        expect(page.locator("#about")).to_contain_text("read-only")
        assert page.locator("#editing:visible, #key-button:visible, .bin:visible").count() == 0


def test_an_empty_collection_takes_its_first_photo(browser, tmp_path):
    folder = save_collection(tmp_path / "model", each=0)
    with Server(folder, key=KEY) as server, visiting(browser, server.address, path=WITH_KEY) as page:
        expect(page.locator("#empty")).to_contain_text("The collection is empty")
        page.set_input_files("#file", photo("lemon"))
        expect(page.locator("#answer")).to_contain_text("The collection is empty")
        page.fill("#label", "lemon")
        page.click("#add")
        expect(page.locator("#items .name")).to_have_text(["lemon"])


def test_a_server_that_stops_and_comes_back(browser, page_folder, tmp_path):
    given = {"folder": page_folder, "key": KEY, "store": str(tmp_path / "own.sqlite")}
    with Server(**given) as server, visiting(browser, server.address, refusals=True) as page:
        upload(page, photo("lemon"))
        server.stop(signal.SIGTERM)
        page.locator(".pick").first.click()
        expect(notice(page)).to_contain_text("The server does not answer")
        assert labels(page)[:EACH] == ["lemon"] * EACH  # what was found stays
        with Server(**given, port=int(server.address.rpartition(":")[2])):
            with answered(page):
                notice(page).get_by_role("button", name="Try again").click()
            expect(notice(page)).to_be_empty()
            assert labels(page)[: EACH - 1] == ["lemon"] * (EACH - 1)


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ({"name": "a.txt", "mimeType": "text/plain", "buffer": b"hello"}, "not a photo that the server can read"),
        ({"name": "a.jpg", "mimeType": "image/jpeg", "buffer": b"hello"}, "Choose a JPEG, PNG or WebP"),
        (jpeg(beside("lemon", "tomato")[:2000]), "cannot be decoded: it is damaged"),
    ],
    ids=["text", "text called JPEG", "cut off"],
)
def test_a_bad_file_is_refused_in_a_sentence(browser, page_address, file, sentence):
    with visiting(browser, page_address, refusals=True) as page:
        upload(page, photo("tomato"))
        page.set_input_files("#file", file)
        expect(notice(page)).to_contain_text(sentence)
        assert labels(page)[:EACH] == ["tomato"] * EACH  # what was found stays


def test_an_oversized_file_is_not_sent(browser, page_address, tmp_path):
    with visiting(browser, page_address) as page, urllib.request.urlopen(f"{page_address}/v1/model") as reply:
        limit = json.load(reply)["limits"]["bytes"]
        expect(page.locator("#items li").first).to_be_visible()
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8" + bytes(limit))
        page.set_input_files("#file", tmp_path / "photo.jpg")
        expect(notice(page)).to_contain_text(f"the server takes at most {limit / 1e6:.1f} MB")
        assert not [url for url in asked if "thumbnail" not in url]


def test_a_full_queue_is_waited_for(browser, page_address):
    with visiting(browser, page_address, refusals=True) as page:
        refused = []

        def refuse(route):
            refused.append(route)
            if len(refused) > 1:
                route.continue_()
            else:
                route.fulfill(status=503, headers={"Retry-After": "1"}, json={"error": "512 requests are waiting"})

        page.route("**/v1/search", refuse)
        page.set_input_files("#file", photo("tomato"))
        expect(notice(page)).to_contain_text("The server is busy. Trying again in 1 s.")
        expect(page.locator("#query")).to_be_visible()
        expect(notice(page)).to_be_empty()
        page.unroute("**/v1/search")
        page.route("**/v1/search", lambda route: route.fulfill(status=503, json={"error": "512 requests are waiting"}))
        page.locator(".pick").first.click()
        expect(notice(page)).to_contain_text("The server is busy: 512 requests are waiting.")
        page.unroute("**/v1/search")
        with answered(page):
            notice(page).get_by_role("button", name="Try again").click()


def test_a_photo_that_comes_before_the_model_is_searched(browser, page_address):
    with visiting(browser, page_address) as page:
        held = {}
        page.route("**/v1/model", lambda route: held.update(model=route))
        page.goto(page_address)
        with answered(page):
            page.set_input_files("#file", photo("tomato"))
            page.wait_for_function("() => !document.getElementById('file').files.length")  # the page has taken it
            held["model"].continue_()
        assert labels(page)[:EACH] == ["tomato"] * EACH
