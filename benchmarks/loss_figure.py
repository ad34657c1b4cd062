"""The log-log figure of ``results/losses.md`` from the figures of a run.

``python -m benchmarks.loss_figure FIGURES.json PICTURE.png``
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from similis.figures.canvas import COLOURS, new_figure


def draw(figures: dict[str, Any], path: Path) -> None:
    """Time and memory of all triplets over B; memory beyond weights and gradient over C."""
    known = figures.get("classes", {})
    figure = new_figure(11.0 if known else 7.4, 3.6)
    panels = figure.subplots(1, 3 if known else 2)
    law = figures["triplets"]
    panels[0].loglog(law["time"]["B"], law["time"]["seconds"], "o-", color=COLOURS[0])
    panels[0].set(title=f"all triplets: exponent {law['time']['exponent']:.2f}", xlabel="B", ylabel="seconds")
    panels[1].loglog(law["memory"]["B"], [b / 1e6 for b in law["memory"]["bytes"]], "o-", color=COLOURS[0])
    panels[1].loglog([1024], [law["bytes"]["peer"] / 1e6], "s", color=COLOURS[1], label="pytorch-metric-learning")
    panels[1].set(title=f"all triplets: exponent {law['memory']['exponent']:.2f}", xlabel="B", ylabel="peak rise, MB")
    panels[1].legend()
    for number, (name, row) in enumerate(known.items()):
        panels[2].loglog(row["C"], [b / 1e6 for b in row["beyond_bytes"]], "o-", color=COLOURS[number % 6], label=name)
    if known:
        panels[2].set(title="beyond weights and gradient", xlabel="C", ylabel="MB", ylim=(10, 1000))
        panels[2].legend(fontsize=6, ncols=2)
    for panel, sizes in zip(panels, (law["time"]["B"], law["memory"]["B"]), strict=False):
        panel.set_xticks(sizes, [str(size) for size in sizes], fontsize=7)
        panel.minorticks_off()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text())["figures"], Path(sys.argv[2]))
