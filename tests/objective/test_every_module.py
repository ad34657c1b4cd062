"""Every file of the objective room has a test file of the same name at the same place."""

from pathlib import Path

import pytest

import similis.objective

HERE = Path(__file__).parent
ROOM = Path(similis.objective.__file__).parent
FILES = sorted(path.relative_to(ROOM) for path in ROOM.rglob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_module_has_its_test_file(file):
    place = HERE / file.parent / f"test_{file.name}"
    assert place.is_file(), f"{file} has no test file; write tests/objective/{file.parent / f'test_{file.name}'}"
    assert "def test_" in place.read_text(), f"{place.name} holds no test"


def test_the_room_was_found():
    assert Path("terms/reductions.py") in FILES
    assert Path("losses/triplet.py") in FILES
