"""Simulated comparisons of two contestants that look several times and stop at the first verdict."""

from dataclasses import replace

import numpy as np

from similis.study.statistics.looks import judge_look
from similis.study.statistics.significance import Target
from similis.study.statistics.variance_components import Scores
from tests.statistics.simulated import World, tournament


def share_of_verdicts(
    world: World,
    looks: tuple[int, ...],
    number: int,
    *,
    target: Target,
    words: tuple[str, ...],
    gain: float = 0.0,
    margin: float = 0.001,
    last: bool = False,
    ignore: tuple[str, ...] = (),
    seed: int = 0,
) -> float:
    """Share of comparisons that end with one of the words; those to ignore do not stop a comparison."""
    chance = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        fixed = target == "these test classes"
        whole = tournament(
            replace(world, losses=2, shared_sd=2.0), looks[-1], chance, fixed_classes=fixed, gains=[gain, 0.0]
        )
        said = first_verdict(whole, looks, target, margin=margin, last=last, ignore=ignore)
        found.append(said in words)
    return float(np.mean(found))


def first_verdict(whole: Scores, looks, target, *, margin: float, last: bool = False, ignore=()) -> str:
    for number, look in enumerate(looks, 1):
        scores = whole.select(whole.names, look)
        final = last and number == len(looks)
        judgement = judge_look(scores, looks[:number], target, margin=margin, last=final)
        word = "equivalent" if ignore and judgement.within_margin[0] else judgement.verdicts[0]
        if word != "undecided" and word not in ignore:
            return word
    return "undecided"
