"""The gallery of losses, which the repository keeps: a thumbnail, a sentence and the formula of each."""

from __future__ import annotations

from similis.cli.losses import FAMILIES, formula, year
from similis.registry import LossEntry, losses

INTRO = """# Gallery of losses

Every loss of the library with its first formula. In a picture, dots are samples of three classes on the circle, a star
or a diamond is a proxy, and an arrow is minus the gradient
([how to read them](explained.md#gradients-tell-you-what-a-loss-does)).

$S_{ij}$ is a cosine similarity, $D_{ij}$ a distance, $P_i$ and $N_i$ are the positives and negatives of sample $i$.
Each file has all forms, arguments and an example; `similis losses show NAME` prints them.
"""


def gallery_page() -> str:
    """All losses by family."""
    parts = [INTRO]
    for family in FAMILIES:
        parts += [f"## {family.capitalize()}\n", *(section(entry) for entry in losses if entry.family == family)]
    return "\n".join(parts)


def section(entry: LossEntry) -> str:
    """Name, picture, sentence, formula and paper of a loss."""
    name, words = entry.name, f"Forces of {entry.name} on three classes"
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="pictures/losses/{name}-dark.svg">'
    picture = f'<picture>{dark}<img src="pictures/losses/{name}.svg" alt="{words}"></picture>'
    text = formula(entry)
    mathematics = f"$$\n{text}\n$$" if "\\" in text else text
    source = f"[{name}.py](../src/similis/objective/losses/{name}.py), {year(entry.paper)}"
    return f"### {name}\n\n{picture}\n\n{entry.summary}\n\n{mathematics}\n\n{source}\n"
