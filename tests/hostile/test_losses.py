"""Labels, types and threads that no loss expects: the same numbers, or one sentence."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from similis.values import UserError
from tests.hostile.attacks import BACKENDS, batch, every_backend, every_form, results, same
from tests.proof import CLASSES, build

HUGE = 2**62
slowly = pytest.mark.slow


@every_form
@every_backend
def test_two_classes_may_be_called_false_and_true(entry, form, backend):
    made = build(entry, form, dtype=torch.float32)
    x, labels = batch()
    truth = labels > 1
    assert same(results(made, x, truth, backend), results(made, x, truth.long(), backend))


@every_form
@every_backend
def test_other_labels_are_refused_in_one_sentence(entry, form, backend):
    made = build(entry, form, dtype=torch.float32)
    x, labels = batch()
    strange = [labels.float(), labels.to(torch.complex64), labels[:-1], labels[:, None, None], labels[0]]
    if made.learned and any(value.ndim for value in made.learned.values()):
        strange += [labels - 1, labels + CLASSES, labels + HUGE]
    for wrong in strange:
        with BACKENDS[backend](), pytest.raises(UserError) as error:
            made(x, wrong)
        assert "\n" not in str(error.value)


@every_form
@every_backend
@pytest.mark.parametrize("dtype", [pytest.param(torch.float16, marks=slowly), torch.bfloat16, torch.float64])
def test_embeddings_and_parameters_may_have_different_types(entry, form, backend, dtype):
    """Embeddings decide the precision; a gradient has the type of its tensor."""
    made = build(entry, form, dtype=torch.float32)
    x, labels = batch(duplicates=False)
    x = x.to(dtype)
    got = results(made, x, labels, backend)
    wide = results(build(entry, form), x.double(), labels, backend)
    assert got[1].dtype == dtype
    assert [part.dtype for part in got[2:]] == [torch.float32] * (len(got) - 2)
    tolerance = 1e-2 if dtype != torch.float64 else 1e-4
    for mine, truth in zip(got, wide, strict=True):
        assert torch.allclose(mine.double(), truth, rtol=tolerance, atol=tolerance * float(truth.abs().max()))


@every_form
@every_backend
@pytest.mark.parametrize("dtype", [pytest.param(torch.float16, marks=slowly), torch.bfloat16])
def test_autocast_changes_no_bit(entry, form, backend, dtype):
    made = build(entry, form, dtype=torch.float32)
    x, labels = batch()
    want = results(made, x, labels, backend)

    def cast(embeddings, names):
        with torch.autocast("cpu", dtype=dtype):
            return made(embeddings, names)

    assert same(results(cast, x, labels, backend), want[:2])


@every_form
@every_backend
def test_threads_that_share_a_loss_do_not_disturb_each_other(entry, form, backend):
    made = build(entry, form, dtype=torch.float32)
    batches = [batch(seed) for seed in range(6)]
    want = [results(made, *each, backend) for each in batches]
    with ThreadPoolExecutor(3) as pool:
        got = list(pool.map(lambda each: results(made, *each, backend), batches))
    assert all(same(a, b) for a, b in zip(got, want, strict=True))


FIRST_ENTRIES = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from similis.data.sampling import samplers
from similis.registry import losses
together = Barrier(4)
def names(registry):
    together.wait()
    return len(list(registry))
for registry in (samplers, losses):
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(names, [registry] * 4)) == [len(list(registry))] * 4
"""


def test_threads_may_ask_for_the_first_entry_at_the_same_time():
    """A registry imports its files when it is first asked; nobody may find it half filled."""
    run = subprocess.run([sys.executable, "-c", FIRST_ENTRIES], check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
