"""The model as one object: encode images, search, classify, enrol new classes, decide same or different."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from similis.data.manifest import Manifest
from similis.model.answers import Explanation, check_names, data_entries, explain_pair, hits, item_entries, name_queries
from similis.model.encoding import CHUNK, Encoder, as_list, chunks, is_one, ready_vectors
from similis.model.faults import Fault, find_faults
from similis.model.hub import push_model
from similis.model.linear_head import fit_linear_head
from similis.model.model_card import NOT_STATED, model_card
from similis.model.model_folder import embedding_hash, save_model_folder
from similis.model.verification import Threshold, gallery_threshold
from similis.networks.embedder import Embedder
from similis.retrieval.classification import REFUSED, VOTERS, unknown_threshold
from similis.retrieval.gallery import Contents, Gallery
from similis.retrieval.grouping import RESOLUTION, group_vectors
from similis.retrieval.index import Index
from similis.retrieval.indexed_gallery import IndexedContents
from similis.retrieval.search import search
from similis.retrieval.similarity import to_comparable
from similis.retrieval.spaces.estimate import Estimate, estimate_gallery
from similis.run.machine import Machine
from similis.run.spec import ModelSpec
from similis.run.trained_on import TrainedOn, trained_part
from similis.values import Preprocessing, UserError

BATCH = 32
SAMPLE = 4096  # images of the gallery that the threshold of unknown is estimated by


class Model:
    """A network with its preprocessing, and a gallery of images that it answers from.

    Items are paths, encoded bytes, images of Pillow's, arrays (H, W, 3), tensors (3, H, W), or ready embeddings (D,).
    A method takes one item or an iterable of them, and answers with one result or a list, from any thread. You get a
    model by :func:`similis.load` or :func:`similis.pretrained`.

    Attributes:
        name: of the run or the network.
        embedder: the network, a torch module from images (B, 3, S, S) to vectors (B, D).
        spec: how the network is built.
        gallery: what :meth:`search` and :meth:`classify` look through.
        folder: of the run, where embeddings of data sets are kept; None for a model without one.
        chosen: the threshold of "same or different" with the classes it was chosen on; None before there is one.
        trained_on: images and classes that trained it; None if that is not known.

    Example:
        >>> import numpy as np
        >>> from similis.model.load import pretrained
        >>> model = pretrained("small_conv", weights=None, size=16)
        >>> black, white = np.zeros((20, 30, 3), np.uint8), np.full((20, 30, 3), 255, np.uint8)
        >>> model.enrol([black], "night")
        >>> model.enrol([white], "day")
        >>> model.classify(white, unknown=False).label
        'day'
    """

    def __init__(
        self, embedder: Embedder, spec: ModelSpec, *, name: str, machine: Machine, folder: Path | None = None
    ) -> None:
        self.name, self.embedder, self.spec, self.folder = name, embedder, spec, folder
        self.chosen: Threshold | None = None
        self.trained_on: TrainedOn | None = None
        self.gallery = Gallery(embedder.dim)
        self._encoder = Encoder(embedder, machine)

    def __repr__(self) -> str:
        return f"Model({self.name!r}, {self.spec.backbone}, {self.dim} dimensions, {len(self.gallery)} items)"

    @property
    def dim(self) -> int:
        """D, the length of an embedding."""
        return self.embedder.dim

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What is done to an image before the network sees it; None for a network of vectors."""
        return self.embedder.preprocessing

    @cached_property
    def model_hash(self) -> str:
        """The sha256 of weights, network and preprocessing, whatever the gallery; computed once."""
        return embedding_hash(self.embedder, self.spec)

    def encode(self, items: Any, *, batch_size: int = BATCH, progress: Callable[[int], None] | None = None) -> Tensor:
        """Embeddings on the host: (D,) of one item, (N, D) of several or of a data set of :func:`similis.open_data`.

        Args:
            items: read as they are needed, so that a generator of a million paths is fine.
            batch_size: images in one forward.
            progress: called with the number of items done.
        """
        if isinstance(items, Manifest) and items.has("vector") and self.preprocessing is not None:
            return self._encode_data(items)
        one = is_one(items)
        found = self._encoder.encode([items] if one else items, batch_size, progress)
        return found[0] if one else found

    def fit_metric(self, data: Manifest, *, kind: str = "whitening", dim: int | None = None) -> Model:
        """A model with a linear map behind this one, fitted in one pass without a loss; its gallery is empty.

        Args:
            data: labelled images of :func:`similis.open_data`; a fifth of their classes chooses the shrinkage.
            kind: ``whitening`` (within-class), ``lda``, or ``pca``.
            dim: size of the new embeddings; None for 512, or for the model's own if that is less.
        """
        embedder, spec = fit_linear_head(self._encoder, self.spec, data, kind, dim)
        made = Model(embedder, spec, name=f"{self.name}-{kind}", machine=self._encoder.machine)
        made.trained_on = trained_part(data).join(self.trained_on)
        return made

    def similarity(self, a: Any, b: Any) -> Tensor:
        """Cosine similarities (N, M) of items a and items b; one item on either side leaves that axis out."""
        found = self._vectors(a) @ self._vectors(b).T
        found = found[0] if is_one(a) else found
        return found[..., 0] if is_one(b) else found

    def add(
        self, items: Any, labels: Sequence[str | None] | str | None = None, ids: Sequence[str] | None = None
    ) -> None:
        """Put items into the gallery; what it knows by its contents is not embedded again.

        Args:
            items: one item, several, or a data set, whose class names are labels and whose paths are ids then. Vectors
                of ``similis embed`` must be of this model; an array of embeddings is not checked.
            labels: a label for each item, or one for all; None for items without labels.
            ids: an id for each item; None for the path, or else a hash of the contents. A known id is replaced.
        """
        if isinstance(items, Manifest):
            self.gallery.add(self._encode_data(items), data_entries(items, labels, ids))
            return
        given = as_list(items)
        named, called = check_names(len(given), labels, ids)
        for start in range(0, len(given), CHUNK):
            part = slice(start, start + CHUNK)
            vectors, digests = self._encoder.look_up(given[part], self.gallery, BATCH, start)
            self.gallery.add(vectors, item_entries(given[part], named[part], called[part], digests))

    def remove(self, ids: Sequence[str] | str) -> None:
        """Take ids out of the gallery."""
        self.gallery.remove([ids] if isinstance(ids, str) else [str(each) for each in ids])

    def enrol(self, items: Any, label: str) -> None:
        """Make a class known by some images of it, without training; call it again with more images at any time."""
        given = items if isinstance(items, Manifest) else as_list(items)
        if label is None or (isinstance(given, list) and not given):
            raise UserError(f"no images or no label ({label!r}) given; give one or more, and the name of their class")
        self.add(given, labels=label)

    def forget(self, label: str) -> None:
        """Take all images of a class out of the gallery."""
        ids = [entry.id for entry in self.gallery.contents().entries if entry.label == str(label)]
        if not ids:
            raise UserError(f"no image of the gallery has the label {label!r}; it holds {len(self.gallery)} images")
        self.gallery.remove(ids)

    def search(
        self, query: Any, k: int = 10, *, copies: bool = True, label: str | None = None, index: Index | None = None
    ) -> Any:
        """The k images of the gallery most like the query, best first: a list of hits; for several, a list of lists.

        Args:
            query: one item, or several.
            k: how many; a smaller gallery gives fewer.
            copies: whether images with the very contents of the query are among them.
            label: look among the images with this label only; None for all.
            index: look there instead, as ``load_index(folder, model_hash=model.model_hash)``; it finds copies too.
        """
        held = self.gallery.contents() if index is None else IndexedContents(index)
        if not len(held):
            raise UserError("the gallery is empty; add images first: model.add(images)")
        vectors, digests = self._encoder.look_up(as_list(query), self.gallery, BATCH)
        left_out, wanted = None if copies else digests, None if label is None else str(label)
        near = held.search(vectors, min(k, len(held)), left_out, wanted)
        found = [hits(held, *row) for row in zip(near.index.tolist(), near.similarity.tolist(), strict=True)]
        return found[0] if is_one(query) else found

    def classify(self, items: Any, k: int = VOTERS, *, unknown: bool = True, refuse: float = REFUSED) -> Any:
        """The class of one item or several by the labelled images near it: an ``Answer``, or a list of them.

        A near image has a larger vote, and votes are divided by the number of images that a class has in the gallery
        (:func:`similis.retrieval.classification.classify_neighbors`).

        Args:
            items: one item, or several.
            k: images that vote; with 1 the nearest one decides.
            unknown: whether an image that is too little like the gallery has no label; False always names a class.
            refuse: share of images of its classes that may be called unknown, as estimated within the gallery.
        """
        held = self.gallery.contents()
        rows, labels, names = held.voters
        if not names:
            raise UserError("no image of the gallery has a label; add some with labels, or enrol a class")
        if unknown and len(names) == 1:
            only = f"the only label of the gallery is {names[0]!r}, so it cannot tell what is unknown"
            raise UserError(f"{only}; enrol another class, or pass unknown=False")
        limit = self.limit_of_unknown(held, refuse) if unknown else None
        answers = name_queries(search(self._vectors(items), rows, min(k, len(labels))), labels, names, limit)
        return answers[0] if is_one(items) else answers

    def limit_of_unknown(self, held: Contents, refuse: float = REFUSED) -> float:
        """The similarity to the nearest image below which a query is unknown, estimated by at most 4,096 images."""
        rows, labels, _ = held.voters
        return held.once(("unknown", refuse), lambda: unknown_threshold(rows.vectors, labels, refuse, sample=SAMPLE))

    def threshold(self, far: float = 1e-3) -> float:
        """The similarity from which two images count as the same class, at this false accept rate.

        It is the one that ``similis verify`` or ``similis export`` chose for this rate. Without one it is computed from
        the labelled images of the current gallery, and not kept with the model. It is then too strict for classes that
        are less similar than those of the gallery, and too lenient for classes that are more similar.

        Args:
            far: false accept rate, the share of pairs of different classes at or above the threshold.
        """
        if self.chosen is not None and self.chosen.far == far:
            return self.chosen.value
        held = self.gallery.contents()
        return held.once(("same", far), lambda: gallery_threshold(held, far))

    def same(self, a: Any, b: Any, *, far: float = 1e-3) -> bool:
        """Whether two images show the same class, with at most this rate of false accepts; see :meth:`threshold`."""
        return self.threshold(far) <= float(self.similarity(a, b))

    def explain(
        self, a: Any, b: Any, *, names: Sequence[str] | None = None, similarity: float | None = None
    ) -> Explanation:
        """How similar two images are, and which of their places make them so; needs matplotlib for the picture.

        Args:
            a: an item.
            b: another one.
            names: below the two; None for their paths.
            similarity: of the search that found b, if b is only its thumbnail; the title then states it.
        """
        own = [str(item) if isinstance(item, str | Path) else name for item, name in ((a, "a"), (b, "b"))]
        return explain_pair(self._encoder, a, b, names or own, similarity)

    def cluster(self, items: Any, resolution: float = RESOLUTION) -> Tensor:
        """The cluster (N,) of several items or a data set, the largest first; without labels or a number of clusters.

        Args:
            items: to group.
            resolution: higher gives more, smaller clusters; see :func:`similis.retrieval.grouping.group_vectors`.
        """
        vectors = self.encode(items) if isinstance(items, Manifest) else self._vectors(items)
        return group_vectors(vectors, resolution)

    def find_faults(self, data: Manifest) -> list[Fault]:
        """What is probably wrong with a data set: copies, wrong labels, outliers, classes that look the same."""
        return find_faults(self.encode, data)

    def upgrade(self, new: Model, sample: Manifest) -> Estimate:
        """What another model would give on this labelled gallery, by images of a data set that are in it."""
        return estimate_gallery(self.gallery.contents(), sample.values("content"), new.encode(sample), self.threshold())

    def save(
        self,
        path: str | Path,
        *,
        thumbnails: Mapping[str, bytes] | None = None,
        card: str | None = None,
        onnx: bytes | None = None,
    ) -> Path:
        """Write the model with its gallery into a folder for :func:`similis.load`; images stay where they are.

        Args:
            path: of the folder; a model that is there is replaced.
            thumbnails: small JPEG or WebP images by id, for a page that shows the gallery.
            card: text of its ``README.md``; None for one that says what the model knows of itself.
            onnx: the network as an ONNX file, see :func:`similis.model.onnx_export.export_onnx`.
        """
        return save_model_folder(
            Path(path), self.embedder, self.spec, self.name, self.gallery.contents(), threshold=self.chosen,
            trained_on=self.trained_on, thumbnails=thumbnails, card=card or model_card(self), onnx=onnx,
        )  # fmt: skip

    def push(self, repository: str, *, private: bool = True, gallery: bool = False, licence: str = NOT_STATED) -> str:
        """Upload the model to the Hugging Face Hub, see :func:`similis.model.hub.push_model`; the URL of the commit."""
        return push_model(self, repository, private=private, gallery=gallery, licence=licence)

    def _encode_data(self, data: Manifest) -> Tensor:
        """Embeddings of a data set; ready ones of ``similis embed`` only if this model has made them."""
        if self.preprocessing is not None and data.has("vector"):
            return ready_vectors(data, self.model_hash)
        return self._encoder.encode_once(data, self.folder, self.name)

    def _vectors(self, items: Any) -> Tensor:
        """Comparable embeddings (N, D), also of one item."""
        found = [self._encoder.look_up(part, self.gallery, BATCH)[0] for part in chunks(as_list(items))]
        return to_comparable(torch.cat([torch.empty(0, self.dim), *found]))
