"""Archives that are damaged, encrypted, dishonest about sizes, or hold odd names."""

import io
import tarfile
import warnings
import zipfile

import pytest

from similis.data.open_data import open_data
from similis.values import DataError
from tests.data.pictures import picture, write
from tests.hostile.refusals import check_refused, read_data
from tests.hostile.test_images import flip

FILES = {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(6) for n in range(2)}


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of these files."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return held.getvalue()


def patched(data: bytes, offset: int, value: bytes, *, local: bool = True) -> bytes:
    """An archive with other bytes at an offset of every entry of its directory (and of every local header)."""
    found = bytearray(data)
    for mark, shift in ((b"PK\x01\x02", 0), (b"PK\x03\x04", -2)):
        if shift and not local:
            continue
        start = 0
        while (start := data.find(mark, start)) >= 0:
            at = start + offset + shift
            found[at : at + len(value)] = value
            start += 4
    return bytes(found)


def refusal(tmp_path, data: bytes) -> str | None:
    (tmp_path / "photos.zip").write_bytes(data)
    return read_data(tmp_path / "photos.zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_cut_and_flipped_archives(tmp_path, method):
    data = zipped(FILES, method)
    assert refusal(tmp_path, data) is None
    for part in range(25):
        assert "cut short" in refusal(tmp_path, data[: len(data) * part // 25])
    answers = [refusal(tmp_path, copy) for copy in flip(data, 25, seed=method, first=None)]
    assert len(answers) - answers.count(None) > 12  # the checksum of a member notices what its directory does not


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a zip archive"),
        (b"PK\x05\x06" + bytes(18), "holds no image"),  # an archive of nothing
        (b"PK\x03\x04" + bytes(1000), "not a zip archive"),
        (patched(zipped(FILES), 8, b"\x01"), "is encrypted"),
        (patched(zipped(FILES), 10, b"\x63"), "compression"),
        (patched(zipped(FILES), 24, b"\xff\xff\xff\xbf", local=False), "3221225471 bytes"),
        (patched(zipped(FILES), 16, b"\x00\x00\x00\x00", local=False), "CRC"),
        (zipped(FILES).replace(b"kind0/0.png", b"kind0/\xff.png"), None),  # read as code page 437
    ],
    ids=["empty", "of-nothing", "zeros", "encrypted", "unknown-method", "claims-gigabytes", "wrong-checksum", "cp437"],
)  # fmt: skip
def test_dishonest_archives(tmp_path, data, words):
    said = refusal(tmp_path, data)
    assert (said is None) if words is None else (said is not None and words in said), said


def test_names_flagged_as_utf8_that_are_not(tmp_path):
    data = zipped({path.replace("kind0", "kindé"): data for path, data in FILES.items()})
    assert refusal(tmp_path, data) is None
    assert "cut short" in refusal(tmp_path, data.replace("é".encode(), b"\xff\xff"))


def test_an_encrypted_archive_through_the_command_line(tmp_path, capsys):
    (tmp_path / "photos.zip").write_bytes(patched(zipped(FILES), 8, b"\x01"))
    check_refused(capsys, tmp_path, tmp_path / "photos.zip", "12 of 12 images")


LEADING_ELSEWHERE = ["../../out/1.png", "/out/1.png", "C:\\out\\1.png", "kind9/../../1.png"]


@pytest.mark.parametrize("name", [*LEADING_ELSEWHERE, "a" * 300 + "/1.png", "x/" * 500 + "1.png"])
def test_names_that_lead_elsewhere_write_nothing(tmp_path, name):
    place = write(tmp_path / "in", {"photos.zip": zipped(FILES | {name: picture(90)})}) / "photos.zip"
    read_data(place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["photos.zip"]


def test_of_a_name_that_occurs_twice_the_last_is_read(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
            for path, data in [*FILES.items(), ("kind0/0.png", picture(99))]:
                archive.writestr(path, data)
    manifest = open_data(str(tmp_path / "photos.zip"))
    assert len(manifest) == len(FILES)
    assert manifest.read_bytes(0) == picture(99)


@pytest.mark.parametrize("ending", ["tar.gz", "tgz", "7z", "rar"])
def test_other_archives_are_told_apart(tmp_path, ending):
    with tarfile.open(tmp_path / f"photos.{ending}", "w") as archive:
        archive.addfile(tarfile.TarInfo("../../out/1.png"), io.BytesIO())
    with pytest.raises(DataError, match="unpack it into a folder"):
        open_data(str(tmp_path / f"photos.{ending}"))
    (tmp_path / f"photos.{ending}").rename(tmp_path / "photos.zip")
    assert "not a zip archive" in read_data(tmp_path / "photos.zip")


def test_a_folder_named_like_an_archive(tmp_path):
    write(tmp_path / "photos.zip", FILES)
    assert "Is a directory" in read_data(tmp_path / "photos.zip")
