"""The plans of the thesis' experiments are what its tables of settings say, and all of them run."""

import pytest
import yaml

from similis.objective.loss import loss
from similis.registry import losses
from similis.study.plan.cost import describe_cost, plan_cost
from similis.study.plan.jobs import final_jobs, final_spec, trial_spec
from similis.study.plan.plan_file import parse_plan, read_plan
from similis.study.plan.search_space import search_space
from similis.study.report.page import write_report
from similis.study.tournament import run_tournament
from similis.values import DataError
from tests.docs.blocks import ROOT
from tests.study.statistics.thesis import NAMES, lines_of

PLANS, TABLES = ROOT / "results" / "thesis" / "plans", ROOT / "results" / "thesis" / "tables"
READINGS = {"text": ("gap", False, 0, "resize-crop"), "code": ("gap+gmp", True, 1, "random-resized")}
SOURCES = {"CUB200-2011": "cub200_2011", "CARS196": "cars196", "SOP": "sop"}
BACKBONES = {"ResNet50": "resnet50.tv_in1k", "BNInception": "bn_inception", "GoogLeNet": "googlenet"}
PRINTED = {  # name in Tables 4 and 15 -> ours; what is not here is a rate
    "Contrastive": {"margin λ": "margin"}, "Triplet": {"margin λ": "margin"}, "LiftedStructure": {"margin λ": "margin"},
    "NPair": {"l_2": "l2"}, "Margin": {"margin λ": "margin_dist", "beta": "beta"},
    "ArcFace": {"margin λ": "margin_deg", "scale s": "scale"}, "ProxyNCA": {},
    "MultiSimilarity": {"margin λ": "base_cos", "scale α": "alpha", "scale β": "beta", "epsilon": "epsilon_cos"},
    "SoftTriple": {"margin λ": "margin_cos", "scale α": "scale", "gamma": "gamma_inv", "tau": "tau"},
    "ProxyAnchor": {"margin λ": "margin_cos", "scale α": "scale"},
}  # fmt: skip
SIZES = (64, 128, 512, 1024)
BENCHMARK = {  # file -> data set and networks, ten losses each
    "cub200_2011": ("CUB200-2011", tuple(BACKBONES)), "cars196": ("CARS196", tuple(BACKBONES)),
    "sop": ("SOP", ("BNInception",)), "sop-unprinted": ("SOP", ("ResNet50", "GoogLeNet")),
}  # fmt: skip


def printed(number):
    return lines_of(TABLES / f"table{number:02}.csv")


def finals(reading, name):
    plan = read_plan(PLANS / reading / f"{name}.yaml")
    return plan, [(job, final_spec(plan, job, {})) for job in final_jobs(plan)]


def check_terms(spec, reading):
    """Table 3 and section 3.4 for its data set and network; what the thesis leaves open, by the reading."""
    t, m = spec.training, spec.model
    assert (m.pooling, m.freeze_batch_norm, t.frozen_epochs, t.policy) == READINGS[reading]
    steps = {(SOURCES[row["dataset"]], BACKBONES[row["network"]]): row for row in printed(3)}
    row = steps[spec.data.source, m.backbone]
    assert (t.lr, t.every_epochs, t.gamma) == (float(row["lr"]), int(row["step_epochs"]), float(row["gamma"]))
    assert (t.epochs, t.optimiser, t.schedule, t.per_class) == (100, "adamw", "step", 5)
    assert t.batch_size == (100 if "resnet50" in m.backbone else 180)
    assert (m.image_size, m.resize, m.weights) == (224, 256, "pretrained")
    assert spec.evaluation.ks == ((1, 10, 100, 1000) if spec.data.source == "sop" else (1, 2, 4, 8))
    assert spec.data.allow_counts == (spec.data.source == "cars196")  # 15 photos are missing in a public copy


def check_loss(job, spec, reading):
    """Table 4's values and absolute rates, and Table 5's mining."""
    title = next(k for k, v in NAMES.items() if v == job.contestant.partition("+")[0])
    entry, mining = losses.get(spec.objective.loss), {row["loss"]: row["mining"] for row in printed(5)}
    preset = entry.presets[spec.objective.preset or "paper"]
    chosen = {**entry.options, **preset.options, **spec.objective.options}
    multiplier = spec.training.loss_multiplier or preset.lr_multiplier
    for row in (row for row in printed(4) if row["loss"] == title):
        key = PRINTED[title].get(row["parameter"])
        if key is None:
            assert spec.training.lr * multiplier == pytest.approx(float(row["value"]), rel=1e-5), row
        elif (title, reading) != ("LiftedStructure", "code"):  # that code has no margin
            assert chosen[key] == float(row["value"]), row
    found = {"Triplet": preset.miner == "semi_hard", "Margin": preset.miner == "distance_weighted"}
    hard = chosen.get("form") == "deepmetric" or spec.training.sampler == "mined" or chosen.get("mined")
    expected = {"-": not hard and not preset.miner, "hard": hard}
    assert found.get(title, expected.get(mining[title])), (title, mining[title])


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("name", BENCHMARK)
def test_the_benchmark_is_tables_3_to_5(name, reading):
    data, networks = BENCHMARK[name]
    plan, runs = finals(reading, name)
    assert [(a.name, plan.arena_terms(a).model.dim) for a in plan.arenas] == [
        (f"{SOURCES[data]}-{BACKBONES[n].partition('.')[0]}-{dim}", dim) for n in networks for dim in SIZES
    ]
    assert [each.loss for each in plan.contestants] == list(NAMES.values())
    assert len(runs) == 40 * len(networks)
    for job, spec in runs:
        assert (spec.data.source, spec.data.protocol) == (SOURCES[data], "default")
        check_terms(spec, reading)
        check_loss(job, spec, reading)
        options = {**losses.get(spec.objective.loss).presets[spec.objective.preset or "paper"].options}
        loss(spec.objective.loss, num_classes=4, dim=8, **options | spec.objective.options)  # can be built


@pytest.mark.parametrize("reading", READINGS)
def test_chapters_5_and_6_are_tables_12_to_19(reading):
    three = ["multi_similarity", "soft_triple", "proxy_anchor"]
    for name in ("cross-validation", "splits", "search", "tuned"):
        plan, runs = finals(reading, name)
        assert [each.loss for each in plan.contestants] == (three[:1] if name == "splits" else three)
        for job, spec in runs:
            check_terms(spec, reading)
            assert (spec.data.source, spec.model.backbone, spec.model.dim) == ("cub200_2011", "bn_inception", 512)
            if name in ("cross-validation", "splits"):
                check_loss(job, spec, reading)
    assert len(finals(reading, "cross-validation")[1]) == 30
    shares = [spec.data.validation_share for _, spec in finals(reading, "splits")[1]]
    assert shares == [int(row["val_classes"]) / 100 for row in printed(14)]
    assert {spec.objective.preset for _, spec in finals(reading, "tuned")[1]} == {"thesis_tuned"}
    own, runs = finals(reading, "own-loss")
    assert [each.options.get("form", "samples") for each in own.contestants] == ["samples", "proxies"]
    assert [spec.data.source for _, spec in runs[::2]] == list(SOURCES.values())
    for _, spec in runs:
        check_terms(spec, reading)
        assert (spec.model.backbone, spec.model.dim) == ("bn_inception", 512)


def test_searched_ranges_and_tuned_presets_are_those_of_table_15():
    plan = read_plan(PLANS / "text" / "search.yaml")
    spaces = {each.loss: search_space(each, plan.search) for each in plan.contestants}
    for row in printed(15):
        name, key = NAMES[row["loss"]], PRINTED[row["loss"]].get(row["parameter"], "loss_multiplier")
        space, low, high = spaces[name][key], *(float(end) for end in row["range"].strip("([])").split(","))
        if key == "loss_multiplier":
            low, high = low / plan.terms.training.lr, high / plan.terms.training.lr
            assert space.low <= low * (1 + 1e-9) < high <= space.high
            assert losses.get(name).presets["thesis_tuned"].lr_multiplier == pytest.approx(float(row["optimum"]) / 1e-4)
            continue
        first = float(row["step"]) if row["range"].startswith("(") else low
        assert (space.low, space.high, space.step) == (first, high, float(row["step"])), row
        assert losses.get(name).presets["thesis_tuned"].options[key] == float(row["optimum"])


def test_hours_are_counted_from_the_catalogue_and_absent_data_is_refused_first(tmp_path):
    plan = read_plan(PLANS / "text" / "own-loss.yaml")
    cost = plan_cost(plan, data_root=str(tmp_path), rate=400.0)
    images = {"cub200_2011": (5864, 5924), "cars196": (8054, 8131), "sop": (59551, 60502)}
    seconds = [2 * (100 * (train + test / 3) + test / 3) / 400 for train, test in images.values()]
    assert list(cost.by_arena.values()) == pytest.approx(seconds)
    assert "cub200_2011, cars196, sop counted from the catalogue" in describe_cost(cost)
    with pytest.raises(DataError, match="cub200_2011 is not in"):
        run_tournament(plan, tmp_path / "begun", data_root=str(tmp_path))
    assert not (tmp_path / "begun" / "plan.yaml").exists()
    assert not (tmp_path / "begun" / "runs").exists()


def test_the_page_states_runs_and_card_hours_of_every_plan(tmp_path):
    page = (ROOT / "results" / "thesis" / "index.md").read_text(encoding="utf-8")
    for file in (PLANS / "text").iterdir():
        cost = plan_cost(read_plan(file), data_root=str(tmp_path), rate=400.0)
        end = f"| {cost.trials + cost.finals} | {cost.seconds / 3600:.0f} |"
        assert f"[{file.stem}](plans/text/{file.name}) {end}" in page, end
        assert (PLANS / "code" / file.name).exists()


def stand_in(name, *, arenas=None, contestants=None):
    """A plan on small made-up images, with its networks and random weights, for one epoch."""
    values = yaml.safe_load((PLANS / "code" / f"{name}.yaml").read_text(encoding="utf-8"))
    small = {"source": "synthetic?classes=24&images=5&size=64", "folds": 3}
    values["terms"]["data"] = {"protocol": values["terms"]["data"]["protocol"]} | small
    values["terms"]["model"] |= {"weights": None, "image_size": 64, "resize": 64}
    values["terms"]["training"] |= {"epochs": 1, "frozen_epochs": 0}
    values["search"] |= {"trials": min(values["search"]["trials"], 1), "epochs": 1}
    for part in [values["terms"], *values.get("arenas", [])]:
        part.setdefault("training", {})["batch_size"] = 40
        if "evaluation" in part:
            part["evaluation"]["ks"] = [k for k in part["evaluation"]["ks"] if k < 50]
        part.get("data", {}).pop("allow_counts", None)
        if "source" in part.get("data", {}):
            part["data"]["source"] = small["source"]
    values["arenas"] = values.get("arenas", [{"name": "main"}])[:arenas]
    values["contestants"] = values["contestants"][:contestants]
    return parse_plan(values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most", "pictures"),
    [
        ("cub200_2011", {"contestants": 2}, ["recall_by_network", "recall_by_embedding_size_of_googlenet"]),
        ("cub200_2011", {"arenas": 1}, ["recall_by_loss-cub200_2011-resnet50-64-equal_samples"]),
        ("sop", {"contestants": 1}, ["recall_by_embedding_size"]),
        ("cross-validation", {}, []),
        ("splits", {}, []),
        ("search", {}, ["tuning"]),
        ("own-loss", {}, ["recall_by_loss-sop-bn_inception-512-equal_samples"]),
    ],
)
def test_plans_run_on_stand_ins_and_their_report_has_the_figures(tmp_path, name, most, pictures):
    plan = stand_in(name, **most)
    report, _, _ = write_report(run_tournament(plan, tmp_path))
    text = report.read_text(encoding="utf-8")
    for picture in pictures:
        assert (tmp_path / "figures" / f"{picture}.png").exists(), picture
        assert f"figures/{picture}.png" in text
    assert ("sum of ranks" in text) == (len(plan.arenas) > 1 and len(plan.contestants) > 1)
    assert ("± " in text.partition("Folds")[2]) == (name == "cross-validation")
    assert trial_spec(plan, plan.contestants[0], {}, 0).model.weights is None
