"""Similis learns what "similar" means: losses, training, fair comparison and search for metric learning."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from similis import formula, losses
    from similis.data.open_data import open_data
    from similis.engine.collectives import Collectives
    from similis.model.index_folder import load_index, save_index
    from similis.model.load import load, pretrained
    from similis.model.model import Model
    from similis.objective.context import distributed
    from similis.objective.loss import Loss, list_losses, loss
    from similis.objective.mining import miner
    from similis.objective.sharding import shard
    from similis.retrieval.embed import embed
    from similis.retrieval.evaluate import evaluate
    from similis.retrieval.index import build_index
    from similis.retrieval.search import search
    from similis.retrieval.verification import verify
    from similis.run.run import train
    from similis.run.spec import RunSpec, read_spec
    from similis.study.tournament import run_tournament as tournament
    from similis.values import DataError, MissingExtraError, SimilisError, UserError

__version__ = "0.1.0"

# Public name -> the module that defines it, and its name there; imported on first use: `import similis` stays light.
_PUBLIC = {
    "Collectives": ("similis.engine.collectives", "Collectives"),
    "DataError": ("similis.values", "DataError"),
    "Loss": ("similis.objective.loss", "Loss"),
    "Model": ("similis.model.model", "Model"),
    "MissingExtraError": ("similis.values", "MissingExtraError"),
    "RunSpec": ("similis.run.spec", "RunSpec"),
    "SimilisError": ("similis.values", "SimilisError"),
    "UserError": ("similis.values", "UserError"),
    "build_index": ("similis.retrieval.index", "build_index"),
    "distributed": ("similis.objective.context", "distributed"),
    "embed": ("similis.retrieval.embed", "embed"),
    "evaluate": ("similis.retrieval.evaluate", "evaluate"),
    "list_losses": ("similis.objective.loss", "list_losses"),
    "load": ("similis.model.load", "load"),
    "load_index": ("similis.model.index_folder", "load_index"),
    "loss": ("similis.objective.loss", "loss"),
    "miner": ("similis.objective.mining", "miner"),
    "open_data": ("similis.data.open_data", "open_data"),
    "pretrained": ("similis.model.load", "pretrained"),
    "read_spec": ("similis.run.spec", "read_spec"),
    "save_index": ("similis.model.index_folder", "save_index"),
    "search": ("similis.retrieval.search", "search"),
    "shard": ("similis.objective.sharding", "shard"),
    "tournament": ("similis.study.tournament", "run_tournament"),
    "train": ("similis.run.run", "train"),
    "verify": ("similis.retrieval.verification", "verify"),
}
_MODULES = ("formula", "losses")  # beside the names: what authors of losses import, and the losses as functions

__all__ = [
    "Collectives",
    "DataError",
    "Loss",
    "MissingExtraError",
    "Model",
    "RunSpec",
    "SimilisError",
    "UserError",
    "__version__",
    "build_index",
    "distributed",
    "embed",
    "evaluate",
    "formula",
    "list_losses",
    "load",
    "load_index",
    "loss",
    "losses",
    "miner",
    "open_data",
    "pretrained",
    "read_spec",
    "save_index",
    "search",
    "shard",
    "tournament",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"similis.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'similis' has no attribute {name!r}")
    module, own = _PUBLIC[name]
    return getattr(importlib.import_module(module), own)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, *_MODULES})
