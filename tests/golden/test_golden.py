"""Golden runs: numbers do not change unless ``NUMERICS`` was raised and the record written anew."""

import json

import pytest

from similis.run.address import NUMERICS
from tests.golden.runs import RECORD, RUNS, measure

GOLDEN = json.loads(RECORD.read_text())
QUERY = 1 / 48  # 6 test classes of 8 images


def test_the_record_is_of_this_version():
    assert GOLDEN["numerics"] == NUMERICS, "NUMERICS was raised: write the record anew, python -m tests.golden.runs"
    assert set(GOLDEN["runs"]) == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_numbers_are_those_on_record(name):
    want, found = GOLDEN["runs"][name], measure(name)
    assert found["losses"] == pytest.approx(want["losses"], rel=1e-4)
    for metric in ("recall@1", "recall@2", "map@r"):
        assert found[metric] == pytest.approx(want[metric], abs=1.01 * QUERY)
