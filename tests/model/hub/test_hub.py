"""Models on the Hub: what is uploaded comes back, and a hostile repository is refused. With the real client."""

import pickle
import sys

import pytest
import torch
import yaml

import similis
from similis.model.bundle_files import ABOUT, CARD, CHECKSUMS, ONNX, THUMBNAILS, WEIGHTS
from similis.values import DataError, MissingExtraError, UserError
from tests.hostile.test_bundles import Evil
from tests.model.hub.client import IMAGES, checked, client, embed, last, new_model, push
from tests.model.hub.server import Hub, Repository

pytest.importorskip("huggingface_hub")


def test_a_pushed_model_comes_back_bit_for_bit_without_its_gallery(server, online):
    url = online(push, "me/back", licence="CC-BY-4.0")
    own = server.repositories["me/back"]
    assert url == f"{server.address}/me/back/commit/{list(own.commits)[-1]}"
    assert own.private
    assert any(asked.startswith("PUT /put/") for asked in server.asked)
    vectors, images = online(embed, "hf://me/back")
    assert torch.equal(vectors, new_model().encode(IMAGES))
    assert images == 0
    card = last(server, "me/back")[CARD].decode()
    assert "| gallery | not uploaded |" in card
    header = {"library_name": "similis", "pipeline_tag": "image-feature-extraction", "license": "cc-by-4.0"}
    assert header.items() <= yaml.safe_load(card.split("---\n")[1]).items()


def test_gallery_and_visibility_are_asked_for_and_files_of_an_older_model_leave(server, online):
    server.repositories["me/old"] = Repository({ONNX: b"old", THUMBNAILS: b"old", "notes.md": b"mine"}, private=True)
    online(push, "me/old", gallery=True)
    assert not {ONNX, THUMBNAILS} & set(last(server, "me/old"))
    assert last(server, "me/old")["notes.md"] == b"mine"
    assert online(embed, "hf://me/old")[1] == len(IMAGES)
    online(push, "me/open", private=False)
    assert not server.repositories["me/open"].private


def test_a_revision_is_a_commit_or_the_last_one(server, online, bundle, tmp_path):
    own = server.repositories["me/moved"] = Repository(bundle)
    first, broken = next(iter(own.commits)), own.add({ABOUT: b"{}"})
    model = new_model()
    model.forget("a")
    own.add({file.name: file.read_bytes() for file in model.save(tmp_path / "b").iterdir()})
    images = [online(embed, f"hf://me/moved{revision}")[1] for revision in ("", f"@{first}", "@main")]
    assert images == [2, 3, 2]
    with pytest.raises(DataError, match=rf"hf://me/moved@{broken} has no model.safetensors"):
        online(embed, f"hf://me/moved@{broken}")
    assert not [asked for asked in server.asked if f"me/moved/resolve/{broken}" in asked]
    for address in ("hf://me/moved@" + 40 * "0", "hf://me/nothing", "hf://me/moved@branch"):
        with pytest.raises(DataError, match=f"cannot download {address} .*log in with `hf auth .*HF_HUB_OFFLINE=1"):
            online(embed, address)


def test_offline_the_cache_is_used(server, online, cache, bundle):
    own = server.repositories["me/kept"] = Repository(bundle)
    expected = online(embed, "hf://me/kept")[0]
    asked = len(server.asked)
    with Hub() as stopped:
        stopped.shutdown()
    with client(stopped.address, cache, HF_HUB_OFFLINE="1") as offline:
        for address in ("hf://me/kept", f"hf://me/kept@{list(own.commits)[-1]}"):
            assert torch.equal(offline(embed, address)[0], expected)
        with pytest.raises(DataError, match=r"cannot download hf://me/never.*unset HF_HUB_OFFLINE"):
            offline(embed, "hf://me/never")
    assert len(server.asked) == asked


@pytest.mark.parametrize("name", ["../evil.json", "a/../../evil.json", "/etc/evil", "C:evil.json", r"a\evil.json"])
def test_a_listed_name_that_leaves_the_folder_is_refused(server, online, cache, bundle, name):
    server.repositories["bad/name"] = Repository(bundle)
    server.repositories["bad/name"].claimed[name] = 5
    with pytest.raises(DataError, match=r"hf://bad/name lists the file '.*evil.*only relative names"):
        online(embed, "hf://bad/name")
    assert not list(cache.glob("hub/models--bad--name"))


def test_a_commit_that_is_no_number_is_refused(server, online, bundle):
    server.repositories["bad/commit"] = Repository(bundle)
    server.repositories["bad/commit"].named = "../../../evil"
    with pytest.raises(DataError, match=r"names the commit '../../../evil', not 40 hexadecimal digits"):
        online(embed, "hf://bad/commit")


@pytest.mark.parametrize("name", [WEIGHTS, ABOUT, "gallery.safetensors"])
def test_contents_that_are_not_those_of_the_checksums_are_refused(server, online, bundle, name):
    changed = bytearray(bundle[name])
    changed[-2] ^= 1
    server.repositories[f"bad/{name}"] = Repository({**bundle, name: bytes(changed)})
    with pytest.raises(DataError, match=rf"^hf://bad/{name}/{name} is missing or damaged") as raised:
        online(embed, f"hf://bad/{name}")
    assert name == ABOUT or "its checksum is not the one in checksums.json" in str(raised.value)


def test_a_size_above_the_limit_is_refused_before_anything_is_downloaded(server, online, bundle):
    server.repositories["bad/size"] = Repository(bundle)
    server.repositories["bad/size"].claimed = {WEIGHTS: 10**13, "videos.zip": 10**14, ABOUT: -(10**13)}
    with pytest.raises(DataError, match=r"has 10,000,00.* bytes; at most 5,000,000,000 are allowed"):
        online(embed, "hf://bad/size")
    assert not [asked for asked in server.asked if "bad/size/resolve" in asked]
    server.repositories["good/size"] = Repository(bundle)
    with pytest.raises(DataError, match="at most 999 are allowed"):
        online(embed, "hf://good/size", 999)
    assert online(embed, "hf://good/size")[1] == len(IMAGES)


class Moving(Repository):
    """Lists its first commit when it is asked first, and its last one later."""

    asked = 0

    @property
    def named(self):
        self.asked += 1
        return next(iter(self.commits)) if self.asked == 1 else ""

    @named.setter
    def named(self, _):
        pass


def test_what_is_downloaded_is_what_was_listed(server, online, bundle):
    own = server.repositories["bad/moving"] = Moving(bundle)
    own.add({**bundle, CARD: b"another"})
    with pytest.raises(DataError, match=r"hf://bad/moving changed from .* while it was downloaded; try again"):
        online(embed, "hf://bad/moving")


def test_a_private_gallery_does_not_go_into_a_public_repository(server, online):
    online(push, "me/public", private=False)
    with pytest.raises(UserError, match="hf://me/public is public and the gallery was to be private"):
        online(push, "me/public", gallery=True)


def test_a_pickle_is_neither_fetched_nor_read(server, online, bundle, tmp_path):
    bomb = pickle.dumps(Evil(tmp_path / "gone-off"))
    rest = {name: data for name, data in bundle.items() if name != WEIGHTS}
    server.repositories["bad/pickle"] = Repository({**rest, "pytorch_model.bin": bomb})
    with pytest.raises(DataError, match=r"has no model.safetensors; .*pickles are not read"):
        online(embed, "hf://bad/pickle")
    (tmp_path / "b").mkdir()
    server.repositories["bad/disguise"] = Repository(checked({**bundle, WEIGHTS: bomb}, tmp_path / "b"))
    with pytest.raises(DataError, match=r"hf://bad/disguise/model.safetensors is missing or damaged \(.*header"):
        online(embed, "hf://bad/disguise")
    server.repositories["me/both"] = Repository({**bundle, "pytorch_model.bin": bomb, "setup.py": b"1 / 0"})
    assert online(embed, "hf://me/both")[1] == len(IMAGES)
    assert not [asked for asked in server.asked if asked.endswith(("pytorch_model.bin", "setup.py"))]
    assert not (tmp_path / "gone-off").exists()


@pytest.mark.parametrize("missing", [ABOUT, CHECKSUMS])
def test_a_repository_that_holds_no_model_of_ours_is_refused(server, online, bundle, missing):
    server.repositories["bad/other"] = Repository({name: data for name, data in bundle.items() if name != missing})
    with pytest.raises(
        DataError, match=rf"hf://bad/other has no {missing}; a model of Similis has .*export MODEL --to"
    ):
        online(embed, "hf://bad/other")
    assert not [asked for asked in server.asked if "bad/other/resolve" in asked]


@pytest.mark.parametrize("address", ["hf://name", "hf://a/b/c", "hf://a/b@", "hf://a/b@x/../y", "hf://../b", "hf:///b"])
def test_an_address_of_another_form_is_refused(address):
    with pytest.raises(UserError, match="given; write hf://owner/name or hf://owner/name@revision"):
        similis.load(address)


def test_without_the_client_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (similis.load, new_model().push):
        with pytest.raises(MissingExtraError, match=r"huggingface_hub is not installed.*\.\[hub\]"):
            call("hf://me/name")


def test_an_upload_goes_to_a_repository_and_no_revision():
    with pytest.raises(UserError, match="uploads go to the main branch: write hf://me/name"):
        new_model().push("me/name@branch")
