"""Metrics for tables: accuracy and time beside peers, XOR, and a table of 100,000 rows.

    python -m benchmarks.metric [--only accuracy|xor|size] [--json results/tables.json] [--pictures FOLDER]
                                [--repeats 10] [--seconds 240] [--metric-learn PYTHON]

``--metric-learn`` (or the variable METRIC_LEARN_PYTHON) names a Python that has metric-learn: it needs an older
scikit-learn and so a process of its own. Times are processor seconds of ``fit`` on one thread.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from benchmarks.rounds import arguments, measure_rows
from similis.sklearn import MetricLearner
from similis.sklearn.report import interval

LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SETS = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
FOLDS = 5
SIZE_COLUMNS = (
    "peak_above_data_mb", "cpu_seconds", "accuracy_before", "accuracy_after", "share_of_the_10_informative_columns"
)  # fmt: skip
PEERS = Path(__file__).with_name("metric_peers.py")


def methods(name):
    """Estimators by name; None is the identity. Rows arrive scaled: nobody scales a second time."""
    made = {
        "Euclidean": None,
        "whitened": MetricLearner("euclidean", init="whitened", standardise=False),
        "scikit-learn NCA": NeighborhoodComponentsAnalysis(random_state=0),
        "ours (default: nca)": MetricLearner(standardise=False, random_state=0),
    }
    if name != "digits":  # several times the time of NCA there
        made["ours, lmnn"] = MetricLearner("lmnn", standardise=False, random_state=0)
        made["ours, mcml"] = MetricLearner("mcml", standardise=False, random_state=0)
    return made


def scaled(name, train, test):
    """Unit variance by the training rows; pixels share a unit already and are only divided by their range."""
    if name == "digits":
        return train / 16.0, test / 16.0
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test)


def folds_of(name, repeats):
    x, y = SETS[name](return_X_y=True)
    for repeat in range(repeats):
        for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=repeat).split(x, y):
            yield (*scaled(name, x[train], x[test]), y[train], y[test])


def score(train, test, y_train, y_test):
    return float(KNeighborsClassifier(3).fit(train, y_train).score(test, y_test))


def accuracy(name, repeats, seconds):
    """Every method on every fold, one after the other, until the repeats or the seconds are used up."""
    found = {method: {"scores": [], "seconds": []} for method in methods(name)}
    began = time.monotonic()
    for number, (a, b, y_a, y_b) in enumerate(folds_of(name, repeats)):
        if number % FOLDS == 0 and time.monotonic() - began > seconds:
            break
        order = list(methods(name).items())
        for method, estimator in order if number % 2 else reversed(order):
            start = time.process_time()
            fitted = estimator.fit(a, y_a) if estimator is not None else None
            found[method]["seconds"].append(time.process_time() - start)
            mapped = (a, b) if fitted is None else (fitted.transform(a), fitted.transform(b))
            found[method]["scores"].append(score(*mapped, y_a, y_b))
    return found


def peers(name, repeats, seconds, python):
    """metric-learn's estimators on the same folds, in a process of their own; nothing where it is absent."""
    if not python:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "folds.npz"
        arrays = {}
        for number, fold in enumerate(folds_of(name, repeats)):
            arrays |= {f"{number}_{key}": part for key, part in zip("abcd", fold, strict=True)}
        np.savez(place, **arrays)
        words, limit = [python, str(PEERS), str(place), str(seconds)], 6 * seconds + 60
        alone = os.environ | dict.fromkeys(LIMITS, "1")
        try:
            said = subprocess.run(words, stdout=subprocess.PIPE, timeout=limit, check=True, env=alone).stdout
        except subprocess.TimeoutExpired as late:  # one fit may be longer than the whole share
            said = late.stdout or b""
    lines = said.decode().splitlines()
    return json.loads(lines[-1]) if lines else {}


def compared(found):
    """A row for each method: accuracy with its interval, difference to ours with its interval, times."""
    ours = np.array(found["ours (default: nca)"]["scores"])
    base = found["scikit-learn NCA"]["seconds"]
    rows = {}
    for method, one in found.items():
        if not one["scores"]:
            rows[method] = {"folds": 0}
            continue
        both = min(len(ours), len(one["scores"]))
        mean = interval(one["scores"], FOLDS)
        less = interval(ours[:both] - np.array(one["scores"][:both]), FOLDS)
        rows[method] = {
            "folds": len(one["scores"]), "accuracy": 100 * mean.mean, "half": 100 * mean.half,
            "ours_minus": 100 * less.mean, "ours_minus_half": 100 * less.half,
            "seconds": float(np.median(one["seconds"])),
            "ratio_to_sklearn_nca": float(np.median([a / b for a, b in zip(one["seconds"], base, strict=False)])),
        }  # fmt: skip
    return rows


def page_rows(found):
    """Lines of the tables of ``results/tables.md``: accuracy on each data set, XOR, size."""
    for name, rows in found["accuracy"].items():
        for method, row in rows.items():
            if row["folds"]:
                yield f"| {name} | {method} | {row['folds']} | {' | '.join(accuracy_cells(method, row))} |"
    for name, row in found["xor"].items():
        yield f"| {name} | {100 * row['triplets_kept']:.1f} | {row['same_over_other']:.3f} |"
    for number, row in found["size"].items():
        cells = [f"{row['data_mb']:.0f}", *(f"{row[key]:.1f}" for key in SIZE_COLUMNS)]
        yield f"| {int(number):,} | {' | '.join(cells)} |"


def accuracy_cells(method, row):
    """Accuracy, ours minus it, and times; an interval takes five folds."""
    halves = ("half", "ours_minus_half")
    half, less = (f" ± {row[key]:.2f}" if row["folds"] >= FOLDS else "" for key in halves)
    ours = "" if method.startswith("ours (default") else f"{row['ours_minus']:+.2f}{less}"
    times = [f"{row['seconds']:.3f}", f"{row['ratio_to_sklearn_nca']:.2f}"] if method != "Euclidean" else ["", ""]
    return [f"{row['accuracy']:.2f}{half}", ours, *times]


def draw_panels(panels, labels, path):
    """The same rows under several metrics side by side, in the plane of their largest variance."""
    import torch

    from similis.figures.canvas import COLOURS, new_figure, save_figure
    from similis.figures.embedding_map import principal_plane

    figure = new_figure(3.6 * len(panels), 3.9)
    for axes, (title, rows) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        plane = principal_plane(torch.from_numpy(rows))[0].numpy()
        for number, label in enumerate(np.unique(labels)):
            axes.scatter(*plane[labels == label].T, s=22, color=COLOURS[number], marker="os"[number], alpha=0.9)
        axes.set(title=title, xticks=[], yticks=[])
        axes.set_aspect("equal", adjustable="datalim")
    figure.tight_layout()
    save_figure(figure, path)


def xor(folder):
    """Four clouds, opposite ones of one class: how often is a row nearer to its class, on rows not seen?"""
    generator = np.random.default_rng(0)
    corners = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    place = np.arange(240) % 4
    x = corners[place] + 0.25 * generator.standard_normal((240, 2))
    y = place // 2
    train, test = np.arange(240) < 120, np.arange(240) >= 120
    learners = {
        "Euclidean": MetricLearner("euclidean"),
        "linear, mcml": MetricLearner("mcml", regularisation=0.01, tol=1e-8),
        "linear, lmnn": MetricLearner("lmnn", regularisation=0.01, tol=1e-8),
        "linear, nca": MetricLearner("nca", regularisation=0.01, tol=1e-8),
        "polynomial kernel (degree 2), mcml": MetricLearner("mcml", kernel="poly", degree=2, regularisation=0.01),
        "RBF kernel, mcml": MetricLearner("mcml", kernel="rbf", gamma=0.5, regularisation=0.01),
    }
    rows, panels = {}, {}
    for name, learner in learners.items():
        z = learner.fit(x[train], y[train]).transform(x[test])
        d = ((z[:, None] - z[None]) ** 2).sum(-1)
        same = (y[test][:, None] == y[test][None]) & ~np.eye(len(z), dtype=bool)
        other = y[test][:, None] != y[test][None]
        kept = [(d[i][same[i]][:, None] < d[i][other[i]][None]).mean() for i in range(len(z))]
        rows[name] = {"triplets_kept": float(np.mean(kept)), "same_over_other": float(d[same].mean() / d[other].mean())}
        if name in ("Euclidean", "linear, mcml") or "kernel" in name:
            title = f"{name}\n{100 * rows[name]['triplets_kept']:.0f}% of triplets kept"
            panels[title] = z
    if folder:
        draw_panels(panels, y[test], Path(folder) / "xor.png")
    return rows


SIZE = """
import resource, sys, time
import numpy as np, torch
from similis.sklearn import MetricLearner
torch.set_num_threads(1)
rows = int(sys.argv[1])
warm = np.random.default_rng(1).standard_normal((3000, 200))
MetricLearner(solver="minibatch", epochs=1, batch_size=1024).fit(warm, np.arange(3000) % 20)
generator = np.random.default_rng(0)
y = generator.integers(0, 20, rows)
centres = np.zeros((20, 200)); centres[:, :10] = 1.2 * generator.standard_normal((20, 10))
x = np.empty((rows, 200))
for first in range(0, rows, 5000):
    part = x[first : first + 5000]
    part[...] = centres[y[first : first + 5000]] + generator.standard_normal(part.shape)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start, wall = time.process_time(), time.perf_counter()
learner = MetricLearner(random_state=0, epochs=5).fit(x, y)
spent, wall = time.process_time() - start, time.perf_counter() - wall
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
from sklearn.neighbors import KNeighborsClassifier
fresh = centres[y[:2000]] + generator.standard_normal((2000, 200))
judge = lambda a, b: float(KNeighborsClassifier(3).fit(a, y[2000:10000]).score(b, y[:2000]))
raw = judge(x[2000:10000], fresh)
learned = judge(learner.transform(x[2000:10000]), learner.transform(fresh))
share = learner.importances_[:10].sum()
print(rows, x.nbytes, (after - before) * 1024, spent, wall, raw, learned, share, learner.n_iter_)
"""


def size():
    """Fits of growing tables in fresh processes: peak memory above the data, time, accuracy on new rows."""
    rows = {}
    for number in (25_000, 50_000, 100_000):
        words = [sys.executable, "-c", SIZE, str(number)]
        done = subprocess.run(
            words, capture_output=True, text=True, check=True, env=os.environ | dict.fromkeys(LIMITS, "1")
        )
        n, data, extra, cpu, wall, before, after, share, steps = map(float, done.stdout.split())
        rows[str(int(n))] = {
            "data_mb": data / 1e6, "peak_above_data_mb": extra / 1e6, "cpu_seconds": cpu, "wall_seconds": wall,
            "accuracy_before": 100 * before, "accuracy_after": 100 * after,
            "share_of_the_10_informative_columns": 100 * share, "steps": int(steps),
        }  # fmt: skip
        print("size", rows[str(int(n))], flush=True)
    return rows


def accuracies(given):
    """Every method and peer on every data set."""
    if not given.metric_learn:
        print("metric-learn was absent: pass --metric-learn PYTHON")
    rows = {}
    for name in SETS:
        found = accuracy(name, given.repeats, given.seconds)
        done = len(found["Euclidean"]["scores"]) // FOLDS
        rows[name] = compared(found | peers(name, done, given.seconds / 8, given.metric_learn))
    return rows


ROWS = {"xor": lambda given: xor(given.pictures), "size": lambda _: size(), "accuracy": accuracies}
MORE = {
    "--pictures": {"help": "folder of the drawing of XOR"}, "--repeats": {"type": int, "default": 10},
    "--seconds": {"type": float, "default": 240.0, "help": "of one data set; whole repeats only"},
    "--metric-learn": {"default": os.environ.get("METRIC_LEARN_PYTHON"), "help": "a Python that has it"},
}  # fmt: skip


def main():
    given = arguments(__doc__.splitlines()[0], list(ROWS), MORE)
    if os.environ.get("OMP_NUM_THREADS") != "1":  # libraries read it when they load: start anew with one thread
        words = [sys.executable, "-m", "benchmarks.metric", *sys.argv[1:]]
        raise SystemExit(subprocess.run(words, env=os.environ | dict.fromkeys(LIMITS, "1"), check=False).returncode)
    torch.set_num_threads(1)
    measure_rows("metric", given, ROWS, lambda name: ROWS[name](given))


if __name__ == "__main__":
    main()
