"""Class names to a matrix of class similarities, by a text encoder; the only module that imports such encoders.

The encoder never enters a run: the matrix is written to a file, the run's spec carries the file's hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from similis.networks.weights import read_weights, weights_hash
from similis.registry import check_known
from similis.values import DataError, UserError, import_extra

TEMPLATE = "a photo of a {}"
Encoder = Callable[[list[str]], Tensor]


class ClassSimilarity(NamedTuple):
    """Similarities (C, C) of classes in the order of their names, and the name of what made them."""

    matrix: Tensor
    names: tuple[str, ...]
    source: str

    def select(self, names: Sequence[str]) -> Tensor:
        """The matrix for these classes in this order; an unknown name raises an error with the nearest."""
        place = {name: row for row, name in enumerate(self.names)}
        for name in names:
            check_known("class name", name, place)
        rows = torch.tensor([place[name] for name in names], dtype=torch.int64)
        return self.matrix[rows][:, rows]

    def hash(self) -> str:
        """SHA-256 of matrix, names and source."""
        text = json.dumps([self.names, self.source, weights_hash({"matrix": self.matrix})])
        return hashlib.sha256(text.encode()).hexdigest()


def readable(name: str) -> str:
    """A class name of a folder as words: no leading number, no underscores.

    Example:
        >>> readable("001.Black_footed_Albatross")
        'Black footed Albatross'
    """
    return re.sub(r"[_\s]+", " ", re.sub(r"^\d+[._]", "", name)).strip()


def similarity_of_names(
    names: Sequence[str], encode: Encoder, *, source: str, template: str = TEMPLATE
) -> ClassSimilarity:
    """The cosines of the texts of classes, (C, C), symmetric with a diagonal of 1.

    Args:
        names: of the classes, each put into the template as readable words.
        encode: texts (N) -> vectors (N, E), of any length, for example :func:`sentence_encoder`.
        source: what the encoder is called.
        template: of a text, with ``{}`` for the name.

    When to use: once for a data set, before language guidance.

    Reference: Roth, Vinyals, Akata: Integrating Language Guidance into Vision-based DML, CVPR 2022.

    Example:
        >>> vectors = {"a": [1.0, 0.0], "b": [3.0, 4.0]}
        >>> encode = lambda texts: torch.tensor([vectors[text] for text in texts])
        >>> similarity_of_names(["a", "b"], encode, source="numbers", template="{}").matrix.tolist()[0]
        [1.0, 0.6000000238418579]
    """
    if "{}" not in template:
        raise UserError(f"the template {template!r} has no place for the name; write {{}} there")
    if len(set(names)) != len(names):
        raise UserError("class names repeat; give each class once")
    vectors = encode([template.format(readable(name)) for name in names]).double()
    vectors = torch.nn.functional.normalize(vectors, dim=1)
    matrix = vectors @ vectors.T
    matrix = ((matrix + matrix.T) / 2).fill_diagonal_(1.0).float()
    return ClassSimilarity(matrix, tuple(names), f"{source}: {template}")


def sentence_encoder(model: str) -> Encoder:
    """An encoder of sentence-transformers: a name on the Hub or the path of a folder."""
    library = import_extra("sentence_transformers")
    try:
        network = library.SentenceTransformer(model, device="cpu")
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"there is no text encoder {model!r} ({reason}); give the folder of a sentence-transformers model, or its "
            "name on the Hub"
        ) from error

    def encode(texts: list[str]) -> Tensor:
        vectors: Tensor = network.encode(texts, convert_to_tensor=True, show_progress_bar=False)
        return vectors.cpu().clone()

    return encode


def save_similarity(similarity: ClassSimilarity, path: str | Path) -> str:
    """Write matrix, names, source and hash as safetensors, whole or not at all; returns the hash."""
    from safetensors.torch import save_file

    path, digest = Path(path), similarity.hash()
    metadata = {"names": json.dumps(similarity.names), "source": similarity.source, "sha256": digest}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    save_file({"matrix": similarity.matrix.contiguous()}, draft, metadata=metadata)
    draft.replace(path)
    return digest


def load_similarity(path: str | Path) -> ClassSimilarity:
    """Read what :func:`save_similarity` wrote; a file whose hash does not hold is refused."""
    tensors, metadata = read_weights(path)
    if "matrix" not in tensors or not {"names", "source", "sha256"} <= set(metadata):
        raise DataError(f"{Path(path).name} is no class-similarity file; write one with similis.networks.text")
    similarity = ClassSimilarity(tensors["matrix"], tuple(json.loads(metadata["names"])), metadata["source"])
    size = len(similarity.names)
    if similarity.hash() != metadata["sha256"] or similarity.matrix.shape != (size, size):
        raise DataError(f"{Path(path).name} was changed after it was written; write it again")
    return similarity
