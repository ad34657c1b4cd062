"""Similis learns what "similar" means: losses, training, fair comparison and search for metric learning."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from similis import formula as formula
    from similis import losses as losses
    from similis.data.batch_sampler import BalancedBatchSampler as BalancedBatchSampler
    from similis.data.open_data import open_data as open_data
    from similis.engine.collectives import Collectives as Collectives
    from similis.model.index_folder import load_index as load_index
    from similis.model.index_folder import save_index as save_index
    from similis.model.load import load as load
    from similis.model.load import pretrained as pretrained
    from similis.model.model import Model as Model
    from similis.objective.context import distributed as distributed
    from similis.objective.loss import Loss as Loss
    from similis.objective.loss import loss as loss
    from similis.objective.loss_options import list_losses as list_losses
    from similis.objective.mining import miner as miner
    from similis.objective.sharding import shard as shard
    from similis.objective.wrappers.memory import CrossBatchMemory as CrossBatchMemory
    from similis.retrieval.embed import embed as embed
    from similis.retrieval.evaluate import evaluate as evaluate
    from similis.retrieval.evaluation import compare as compare
    from similis.retrieval.index import build_index as build_index
    from similis.retrieval.search import search as search
    from similis.retrieval.verification import verify as verify
    from similis.run.run import train as train
    from similis.run.spec import RunSpec as RunSpec
    from similis.run.spec import read_spec as read_spec
    from similis.study.tournament import run_tournament
    from similis.training.gradient_cache import GradientCache as GradientCache
    from similis.values import DataError as DataError
    from similis.values import MissingExtraError as MissingExtraError
    from similis.values import SimilisError as SimilisError
    from similis.values import UserError as UserError

    tournament = run_tournament

__version__ = "0.2.0"

# Public name -> the module that defines it, and its name there; imported on first use: `import similis` stays light.
_PUBLIC = {
    "BalancedBatchSampler": ("similis.data.batch_sampler", "BalancedBatchSampler"),
    "Collectives": ("similis.engine.collectives", "Collectives"),
    "CrossBatchMemory": ("similis.objective.wrappers.memory", "CrossBatchMemory"),
    "DataError": ("similis.values", "DataError"),
    "GradientCache": ("similis.training.gradient_cache", "GradientCache"),
    "Loss": ("similis.objective.loss", "Loss"),
    "Model": ("similis.model.model", "Model"),
    "MissingExtraError": ("similis.values", "MissingExtraError"),
    "RunSpec": ("similis.run.spec", "RunSpec"),
    "SimilisError": ("similis.values", "SimilisError"),
    "UserError": ("similis.values", "UserError"),
    "build_index": ("similis.retrieval.index", "build_index"),
    "compare": ("similis.retrieval.evaluation", "compare"),
    "distributed": ("similis.objective.context", "distributed"),
    "embed": ("similis.retrieval.embed", "embed"),
    "evaluate": ("similis.retrieval.evaluate", "evaluate"),
    "list_losses": ("similis.objective.loss_options", "list_losses"),
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

__all__ = ["__version__", *_MODULES, *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"similis.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'similis' has no attribute {name!r}")
    module, own = _PUBLIC[name]
    return getattr(importlib.import_module(module), own)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, *_MODULES})
