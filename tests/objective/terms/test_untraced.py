"""What a compiler must not trace: a constant read once, and work that runs as without a compiler."""

import pytest
import torch

from similis.objective.terms.untraced import constant, eagerly

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


def test_work_that_depends_on_values_is_not_traced():
    traced = []

    def count(x):
        traced.append(torch.compiler.is_compiling())
        return x[x > 0].sum()

    @torch.compile(backend="eager")
    def call(x):
        return eagerly(count, x) * 2

    assert float(call(torch.tensor([1.0, -1.0, 3.0]))) == 8.0
    assert traced == [False]
