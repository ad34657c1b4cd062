"""The folder of a tournament and what is kept in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from similis.run.machine import Machine
from similis.study.ledger import Ledger
from similis.study.looks import Looks
from similis.study.plan.plan_file import read_plan
from similis.study.plan.schema import Plan
from similis.study.records import Records
from similis.values import UserError


@dataclass(frozen=True)
class TournamentFolder:
    """Plan, runs, records, studies, ledger and report of one tournament."""

    path: Path
    data_root: str | None = None
    device: str = "auto"
    runs: Path | None = None  # shared with other tournaments

    @property
    def machine(self) -> Machine:
        """Where runs are kept, and the data sets."""
        return Machine(root=self.runs or self.path / "runs", device=self.device, data_root=self.data_root)

    @property
    def records(self) -> Records:
        """The records of finished runs."""
        return Records(self.path / "records")

    @property
    def ledger(self) -> Ledger:
        """The openings of the test split."""
        return Ledger(self.path / "ledger.jsonl")

    @property
    def looks(self) -> Looks:
        """Its interim analyses, if it gained repetitions until one of them decided."""
        return Looks.of(self.path)

    def plan(self) -> Plan:
        """The plan that was begun here."""
        if not (self.path / "plan.yaml").exists():
            makers = "`similis tournament run` and `similis compare` make one"
            raise UserError(f"{self.path} is not the folder of a tournament (it has no plan.yaml); {makers}")
        return read_plan(self.path / "plan.yaml")

    def begin(self) -> Plan:
        """The plan for a run of this process, with its number of threads set, because sums depend on it."""
        plan = self.plan()
        torch.set_num_threads(plan.threads)
        return plan
