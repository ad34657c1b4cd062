"""What a hostile file may do: be read, or be refused by Similis' own error in one sentence."""

from pathlib import Path

import pytest

from similis.cli import main
from similis.data.images import prepare
from similis.data.open_data import open_data
from similis.values import DataError, SimilisError

SMALL = ("--backbone", "small_conv", "--size", "16", "--dim", "8", "--epochs", "1", "--no-pictures")


def check_sentence(error: SimilisError) -> str:
    """The message, which is one plain line for people."""
    message = str(error)
    assert message
    assert "\n" not in message
    assert "Traceback" not in message
    assert " object at 0x" not in message
    assert message.isprintable()
    return message


def read_image(data: bytes) -> str | None:
    """None if bytes are read as an image, the message if they are refused; anything else raises."""
    try:
        pixels = prepare(data, resize=16)
    except DataError as error:
        return check_sentence(error)
    assert min(pixels.shape[:2]) == 16
    return None


def read_data(place: Path | str) -> str | None:
    """None if a data set is opened and all its images are read, the message if it is refused."""
    try:
        manifest = open_data(str(place))
        manifest.fingerprint()
        for row in range(len(manifest)):
            prepare(manifest.read_bytes(row), resize=16)
    except SimilisError as error:
        return check_sentence(error)
    return None


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code of a command and all that it printed."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return int(ended.value.code or 0), captured.out + captured.err


def check_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, place: Path | str, words: str) -> None:
    """``similis data check`` and ``similis train`` refuse a data set, and say so with these words."""
    train = ("train", str(place), *SMALL, "--runs", str(tmp_path / "runs"))
    for command in (("data", "check", str(place)), train):
        code, said = call(capsys, *command)
        assert code in (1, 2), said
        assert words in " ".join(said.split()), said
