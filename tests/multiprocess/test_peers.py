"""The page that compares libraries says what they compute today."""

import pytest

from tests.docs.records import figures
from tests.multiprocess.peers import EVEN, OURS, PML, UNEVEN, compare_kinds

CASES = [("similis", name, counts) for name in OURS for counts in (EVEN, UNEVEN)]
CASES += [(kind, name, EVEN) for kind in ("pml", "pml efficient", "pml local") for name in list(PML)[:2]]


@pytest.mark.parametrize(("kind", "name", "counts"), CASES)
def test_a_row_of_the_page_is_computed_again(two, kind, name, counts):
    recorded = {tuple(row[:3]): row[3:] for row in figures("distributed.json")}
    assert compare_kinds(two, kind, name, counts) == recorded[kind, name, " + ".join(map(str, counts))]
