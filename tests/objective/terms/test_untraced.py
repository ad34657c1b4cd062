"""What a compiler must not trace: a constant read once."""

import pytest
import torch

from similis.objective.terms.untraced import constant

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def test_a_constant_is_read_once_and_compiled_in():
    asked = []

    def answer():
        asked.append(1)
        return True

    @torch.compile(backend="eager", fullgraph=True)
    def call(x):
        return x + 1 if constant(answer) else x

    x = torch.zeros(2)
    assert call(x).tolist() == [1.0, 1.0]
    read = len(asked)
    assert call(x).tolist() == [1.0, 1.0]
    assert len(asked) == read
