"""What stands around the results: search, equal terms, ledger, commands, the thesis' numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from similis.study.page import Block, Fold, Heading, Items, Table, Text
from similis.study.plan import Plan
from similis.study.table import FairTable
from similis.study.terms import declared_differences
from similis.study.thesis import recalls, table11

THESIS_DATA = {"cub200_2011": "CUB200-2011", "cars196": "CARS196", "sop": "SOP"}
THESIS_NETWORKS = {"resnet50": "ResNet50", "bn_inception": "BNInception", "googlenet": "GoogLeNet"}


def search_table(searches: Sequence[Mapping[str, Any]], plan: Plan) -> list[Block]:
    """What the search found over the first preset, with the same budget for all."""
    if not plan.search.trials:
        return [Text("Nothing was searched: every contestant ran with its preset and the options that the plan sets.")]
    rows = []
    for record in searches:
        gain = 100 * (record["value"] - record["preset_value"])
        weight = ", ".join(
            f"{key} {100 * value:.0f} %" for key, value in sorted(record["importance"].items(), key=lambda kv: -kv[1])
        )
        rows.append([
            record["contestant"], told_trials(record), f"{record['pruned']}", f"{record['samples']:,}",
            f"{100 * record['preset_value']:.2f}", f"{100 * record['value']:.2f}", f"{gain:+.2f}", weight or "–",
        ])  # fmt: skip
    where = "test classes: selected on test" if plan.terms.data.protocol == "default" else "validation classes"
    note = (
        f"Budget of each contestant: {plan.search.trials} runs of {plan.search.epochs} epochs, counted in samples "
        f"seen, the first preset included; {plan.search.strategy} over the ranges of {plan.search.space}. R@1 on "
        f"the {where}: "
        "the gain is the best of several looks at them, so it flatters. Importance: PED-ANOVA over complete trials."
    )
    columns = ["contestant", "trials", "pruned", "samples", "first preset, R@1 %", "best, R@1 %", "gain", "importance"]
    return [Text(note), Table(columns, rows)]


def told_trials(record: Mapping[str, Any]) -> str:
    """The number of trials, and how many of them diverged."""
    lost = record.get("diverged", 0)
    return f"{record['trials']}" + (f" ({lost} diverged)" if lost else "")


def held_table(tables: Sequence[FairTable]) -> list[Block]:
    """Every setting that was equal for all rows of a table."""
    shared = {k: v for k, v in tables[0].terms.held.items() if all(t.terms.held.get(k) == v for t in tables)}
    rows = [[f"`{key}`", f"`{value}`"] for key, value in sorted(shared.items())]
    blocks: list[Block] = [
        Text(f"{len(shared)} settings are equal over the whole page; results that differ in one are refused."),
        Fold("all settings held equal", [Table(["setting", "value"], rows)]),
    ]
    own = [
        [
            f"{t.arena}, {t.length}",
            ", ".join(f"`{k}` = `{v}`" for k, v in sorted(t.terms.held.items()) if k not in shared),
        ]
        for t in tables
    ]
    if len(tables) > 1:
        blocks.append(Table(["table", "equal inside it"], own))
    blocks.append(
        Text(
            "Allowed to differ: the loss, its options and presets, its miner, its sampler unless `training.sampler` "
            "names one, the rate of what it learns (searched)."
        )
    )
    declared = {name: declared_differences(runs[0]) for t in tables for name, runs in t.records.items()}
    extras = [[name, ", ".join(f"`{k}` = `{v}`" for k, v in own.items())] for name, own in declared.items() if own]
    if extras:
        blocks.append(Text("Declared by the plan, and part of the contestant's name:"))
        blocks.append(Table(["contestant", "differs from the terms in"], extras))
    return blocks


def ledger_table(entries: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Who looked at the test split."""
    counts: dict[tuple[str, str], int] = {}
    for entry in entries:
        key = (str(entry["contestant"]), str(entry["why"]))
        counts[key] = counts.get(key, 0) + 1
    rows = [[name, why, str(number)] for (name, why), number in sorted(counts.items())]
    every = Items([f"`{entry['model']}`: {entry['why']}" for entry in entries])
    text = Text(f"{len(entries)} openings in all; a line is written before the split is read.")
    return [text, Table(["contestant", "why", "openings"], rows), Fold("every opening", [every])]


def row_commands(plan: Plan) -> list[Block]:
    """One command for each row: contestants do not depend on each other."""
    lines = [f"`similis tournament run plan.yaml --only {each.title} --folder again`" for each in plan.contestants]
    return [Text("From the plan beside this page, search included:"), Items(lines)]


def thesis_table(tables: Sequence[FairTable]) -> list[Block]:
    """The thesis' printed numbers, as reference points and never as targets."""
    held = tables[0].terms.held
    source = THESIS_DATA.get(str(held.get("data.source")).partition("?")[0])
    network = THESIS_NETWORKS.get(str(held.get("model.backbone")).partition(".")[0], "BNInception")
    losses = {str(runs[0]["loss"]) for table in tables for runs in table.records.values()}
    dim = int(held.get("model.dim", 512))
    printed = recalls(source, network, dim) or recalls(source, network, 512) if source else {}
    ranks = {line.name: line for line in table11()}
    rows = [
        [name, f"{printed[name]:.2f}" if name in printed else "–", f"{ranks[name].mean:.2f}"]
        for name in sorted(losses & ranks.keys(), key=lambda name: ranks[name].mean)
    ]
    if not rows:
        return []
    note = (
        "Printed by the thesis: one run a cell, epochs chosen on test, other networks and images; cells that cannot be "
        "right are dropped. Reference points, not targets. Ranks are recomputed from its tables on CUB200-2011."
    )
    columns = ["loss", f"R@1 %, {source}, {network}" if source else "R@1 %", "mean rank of ten, CUB200-2011"]
    return [Heading("Beside it: the thesis' numbers"), Text(note), Table(columns, rows)]
