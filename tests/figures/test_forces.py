"""Force pictures: the arrows are the loss's own gradient, and every picture can be read."""

import pytest
import torch
from matplotlib.collections import PathCollection
from matplotlib.text import Annotation

from similis.figures.force_plot import STILL, draw_forces, save_forces
from similis.figures.forces import DEGREES, LABELS, build_drawn_loss, forces, unit_vectors
from similis.figures.formula import break_lines, to_text
from similis.registry import losses
from tests.forking import start

FORMS = [(entry.name, form) for entry in losses for form in entry.forms]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_a_small_step_along_the_arrows_lowers_the_loss_as_much_as_they_are_long(name, form):
    """Samples and class vectors step separately; a wrong sign, class or place of an arrow shows."""
    acting = forces(name, form=form)
    _, made, _ = build_drawn_loss(name, form)
    x, labels = unit_vectors(DEGREES), torch.tensor(LABELS)
    with torch.no_grad():
        before = made(x, labels).item()
        assert before == pytest.approx(acting.value, rel=1e-12)
        size = acting.samples.forces.square().sum().item()
        assert size > 0
        step = 1e-6 / size**0.5
        change = made(x + step * acting.samples.forces, labels).item() - before
        if "gradcheck" in losses.get(name).exempt:  # its gradient is not that of its value, by definition
            assert change < 0
            return
        assert change == pytest.approx(-step * size, rel=1e-3)
        if acting.proxies is not None:
            size = acting.proxies.forces.square().sum().item()
            step = 1e-6 / size**0.5
            proxies = made.learned["proxies"]
            proxies += step * acting.proxies.forces.reshape(proxies.shape)
            assert made(x, labels).item() - before == pytest.approx(-step * size, rel=1e-3)


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_every_picture_shows_every_point_with_an_arrow_or_a_mark(name, form):
    acting = forces(name, form=form)
    figure = draw_forces(name, form=form)
    (axes,) = figure.axes
    moved = [acting.samples] + ([acting.proxies] if acting.proxies else [])
    points = sum(len(m.points) for m in moved)
    still = sum(int((m.strength < STILL).sum()) for m in moved)
    marks = [c for c in axes.collections if isinstance(c, PathCollection)]
    arrows = [t for t in axes.texts if isinstance(t, Annotation)]
    assert len(marks) == points + still
    assert len(arrows) == points - still
    assert name in figure.texts[0].get_text()
    assert axes.get_legend() is not None
    width = figure.get_size_inches()[0] * figure.dpi
    for text in figure.texts:  # nothing sticks out of the picture
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= width


@pytest.mark.parametrize("entry", [e for e in losses if e.input == "unit"], ids=lambda e: e.name)
def test_forces_of_losses_on_the_sphere_are_tangents(entry):
    for form in entry.forms:
        acting = forces(entry.name, form=form)
        for moved in [acting.samples] + ([acting.proxies] if acting.proxies else []):
            radial = (moved.points * moved.forces).sum(1).abs().max()
            assert float(radial) <= 1e-9 * float(moved.forces.norm(dim=1).max()) + 1e-12


@pytest.mark.parametrize("entry", [e for e in losses if "proxies" in e.learns], ids=lambda e: e.name)
def test_class_vectors_are_drawn_with_their_classes(entry):
    for form in entry.forms:
        proxies = forces(entry.name, form=form).proxies
        assert proxies is not None
        assert sorted(set(proxies.classes.tolist())) == [0, 1, 2]
        assert len(proxies.points) <= 9  # more would overlap


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\frac{1}{B} \sum_i [D^2_{ij} - m]_+", "1/B Σ_i [D²_ij - m]₊"),
        (r"\log \frac{e^{-a / T}}{\sum_c e^{x_{y_i}}}, \qquad \#\{a\}", "log(exp(-a / T)/(Σ_c exp(x_(y_i))))\n#{a}"),
        (r"\unknown{x} \mathcal{L}\, \cos\theta", "unknownx mathcalL cos θ"),
    ],
)
def test_formulas_as_text(tex, text):
    assert to_text(tex) == text


def test_long_formulas_break_at_a_wide_space():
    left, right = "a" * 60, "b" * 60
    assert break_lines(rf"{left}, \quad {right}") == [left, right]
    assert break_lines(r"a, \quad b") == [r"a, \;\; b"]


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_ending_chooses_the_kind_of_file(ending, tmp_path):
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert save_forces("triplet", tmp_path / f"a.{ending}").read_bytes().startswith(start)


def test_no_global_state_of_pyplot_is_touched():
    program = "import sys; from similis.figures.force_plot import draw_forces; draw_forces('triplet'); "
    process = start(exec, f"{program}sys.exit('matplotlib.pyplot' in sys.modules)")
    process.join()
    assert process.exitcode == 0
