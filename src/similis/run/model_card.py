"""The model card: what a model was made of, what was measured, and what it is not for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from similis.run.model import Model


def model_card(model: Model) -> str:
    """The card of a model as Markdown."""
    return f"# {model.name}\n"
