"""Every registered loss keeps every contract, in each of its forms."""

import pytest

from similis.registry import losses
from tests.contracts.contracts import CONTRACTS, exemption
from tests.proof import SHAPES, forms, proof_of


def cases():
    for entry, form in forms():
        for contract in CONTRACTS.values():
            if (contract.once and form != next(iter(entry.forms))) or exemption(entry, form, contract.name):
                continue
            compiled = contract.name == "compile" and (entry.name, form) not in SHAPES  # seconds for each
            slow = contract.slow or compiled
            marks = [pytest.mark.slow] if slow else [pytest.mark.quick] if contract.name == "oracle" else []
            yield pytest.param(contract, entry, form, id=f"{entry.name}:{form}-{contract.name}", marks=marks)


@pytest.mark.parametrize(("contract", "entry", "form"), list(cases()))
def test_contract(contract, entry, form):
    contract.check(entry, form)


WORKED = [
    pytest.param(entry.function, *row, id=f"{entry.name}-{number}")
    for entry in losses
    for number, row in enumerate(getattr(proof_of(entry.name), "WORKED", ()))
]


@pytest.mark.quick
@pytest.mark.parametrize(("function", "arguments", "options", "expected"), WORKED)
def test_worked_numbers(function, arguments, options, expected):
    assert float(function(*arguments, **options)) == pytest.approx(expected, abs=1e-6)


def test_there_is_something_to_check():
    assert {"triplet", "proxy_anchor"} <= {entry.name for entry, _ in forms()}
    assert len(CONTRACTS) == 18
    assert len(WORKED) > 100


EXEMPT = [pytest.param(entry, key, id=f"{entry.name}-{key}") for entry in losses for key in entry.exempt]


@pytest.mark.parametrize(("entry", "key"), EXEMPT)
def test_an_exemption_is_stated_and_still_needed(entry, key):
    name, _, form = key.partition(":")
    assert name in CONTRACTS, f"{key!r} names no contract; there are: {', '.join(CONTRACTS)}"
    assert not form or form in entry.forms, f"{key!r} names no form; there are: {', '.join(entry.forms)}"
    assert len(entry.exempt[key].split()) >= 4, f"the reason {entry.exempt[key]!r} is no sentence"
    assert any(breaks(name, entry, f) for f in ([form] if form else entry.forms)), f"{key!r} is kept; drop it"


def breaks(name, entry, form):
    try:
        CONTRACTS[name].check(entry, form)
    except Exception:  # an exempt loss may also refuse with an error of its own
        return True
    return False
