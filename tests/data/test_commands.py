"""The verbs of ``similis data`` as a shell would call them."""

from similis.data.open_data import open_data
from tests.cli.test_main import ended
from tests.data.pictures import picture, write


def test_show_lists_known_data_sets_and_describes_one(capsys):
    assert ended(["data", "show"]) == 0
    listed = capsys.readouterr().out
    assert "cub200_2011" in listed
    assert "train 5864 images of 100 classes" in listed
    assert ended(["data", "show", "synthetic?classes=4&images=3&size=8"]) == 0
    told = capsys.readouterr().out
    assert "12 images" in told
    assert "3 to 3, mean 3.0" in told
    assert open_data("synthetic?classes=4&images=3&size=8").fingerprint() in told


def test_check_counts_and_ends_with_0_without_errors(tmp_path, capsys):
    write(tmp_path, {f"{name}/{n}.png": picture(n + 10 * ord(name)) for name in "ab" for n in range(2)})
    assert ended(["data", "check", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert ["all", "4", "2", "2", "to", "2,", "mean", "2.0"] in [line.split() for line in told.splitlines()]
    assert "4 images checked: 0 errors, 0 warnings" in told
