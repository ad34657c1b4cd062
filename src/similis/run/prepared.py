"""A run before its first step: specification, machine, data and network, each made once and handed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from similis.data.manifest import Manifest
from similis.run.address import address, files_fingerprint
from similis.run.machine import Machine
from similis.run.network import Network, normalises
from similis.run.parts import Source, divide_data, open_manifest
from similis.run.places import with_whole_paths
from similis.run.protocol import TrainingStep, training_steps
from similis.run.spec import RunSpec, change


@dataclass(frozen=True)
class Prepared:
    """What a run is made of.

    Attributes:
        spec: everything that decides the numbers, with whole paths.
        machine: what the run may use.
        manifest: the data as they were opened.
        source: the data with their classes divided as the specification says.
        network: built when it is first needed.
    """

    spec: RunSpec
    machine: Machine
    manifest: Manifest
    source: Source
    network: Network

    @cached_property
    def address(self) -> str:
        """Where the result of the run lives, on its data and this machine's kind of device."""
        files = files_fingerprint(self.spec)
        return address(self.spec, self.source.split.fingerprint, files, self.machine.chosen.type)

    @cached_property
    def steps(self) -> tuple[TrainingStep, ...]:
        """The trainings that the run consists of."""
        return training_steps(self.spec, self.source.split)

    def change(self, changes: Mapping[str, Any]) -> Prepared:
        """The same run with other values at dotted keys; what they do not touch is kept."""
        spec, network, source = change(self.spec, changes), self.network, self.source
        if spec.model != self.spec.model:
            network = network.resized(spec.model.image_size, spec.model.resize)
        if spec.data != self.spec.data:
            source = divide_data(self.manifest, spec)
        return replace(self, spec=spec, source=source, network=network)


def prepare(spec: RunSpec, machine: Machine, manifest: Manifest | None = None) -> Prepared:
    """Open the data of a run, unless they are given, and divide their classes; nothing is built yet."""
    manifest = open_manifest(spec, machine) if manifest is None else manifest
    spec = with_whole_paths(spec)
    network = Network(spec.model, normalises(spec), spec.seed)
    return Prepared(spec, machine, manifest, divide_data(manifest, spec), network)
