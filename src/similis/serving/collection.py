"""A collection that is served: the model, its store, and the answers that both give together."""

from __future__ import annotations

import asyncio
import io
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from similis.model.answers import Answer, Hit, hits, name_queries
from similis.model.bundle import Rate, read_rates
from similis.model.bundle_files import ABOUT, holds_model
from similis.model.collection_file import served_model
from similis.model.index_folder import load_index
from similis.model.load import load
from similis.retrieval.classification import VOTERS
from similis.retrieval.gallery import Contents, Entry
from similis.retrieval.indexed_gallery import IndexedGallery
from similis.retrieval.similarity import check_finite
from similis.serving.batching import Batcher, Work
from similis.serving.indexed_store import IndexedStore
from similis.serving.limits import Limits, Refusal
from similis.serving.metrics import Metrics
from similis.serving.opened_store import hold_store, open_store
from similis.serving.store import Item, Store
from similis.serving.uploads import Box, Upload, read_upload
from similis.values import Neighbors, UserError

logger = logging.getLogger(__name__)
IMAGES, VECTORS = 16, 64  # in one batch
DECODERS = 2  # threads
PAUSE = 10  # times the time that the threshold of unknown took, before it is estimated again


class Query(NamedTuple):
    """A vector (D,) to search with; entries of the digest are left out, and with a label all but its entries."""

    vector: Tensor
    k: int
    label: str | None = None
    hidden: str = ""
    voters: int = VOTERS


class Found(NamedTuple):
    """Hits, and the label that the nearest agree on; no answer where the gallery has fewer than two labels."""

    hits: list[Hit]
    answer: Answer | None


class Collection:
    """The model object behind the routes; methods that are not coroutines compute, and are not for the event loop.

    Args:
        folder: of a bundle or of a saved model.
        file: of the store.
        limits: of requests.
        metrics: where batches are counted.
        read_only: take no changes.
        index: folder of an index that is served in place of a store, without changes.
        verify: compare the hashes of its files.
        keep_images: keep the images that are added as they were sent, for another model to embed.
        store: of the collection if it is open already.
    """

    def __init__(
        self,
        folder: Path,
        file: Path,
        limits: Limits,
        metrics: Metrics,
        *,
        read_only: bool = False,
        index: Path | None = None,
        verify: bool = False,
        keep_images: bool = False,
        store: Store | None = None,
    ) -> None:
        if not holds_model(folder):
            raise UserError(
                f"{folder} holds no {ABOUT}: a run has no images ready to be searched; write a bundle first: "
                f"similis export {folder} bundle, then similis serve bundle"
            )
        if index is None:
            self.store: Store = store or hold_store(file, read_only=read_only)  # no upgrade changes its model now
            folder = served_model(folder, file)
        self.model, self.limits, self.keep_images, self.is_replaced = load(folder), limits, keep_images, False
        self.first_count = len(self.model.gallery)  # items that the rates were measured on
        self.rates: list[Rate] = read_rates(folder)
        if index is not None:
            opened = load_index(index, model_hash=self.model.model_hash, verify=verify)
            self.store, self.model.gallery = IndexedStore(opened, index), IndexedGallery(opened)
        else:
            open_store(self.model, folder, self.store)
        self.unknown_below: float | None = None
        self.estimate = "none yet"  # of that threshold: "current" or "failed" once it was tried
        self._explaining = Lock()
        kinds = (Work("search", self.search, VECTORS), Work("encode", self.encode, IMAGES))
        self.batcher = Batcher(kinds, limits.queue, metrics.count_batch)
        self._decoders = ThreadPoolExecutor(DECODERS, "similis-decode")
        self._writer, self._changing = ThreadPoolExecutor(1, "similis-write"), 0
        self._readers = ThreadPoolExecutor(DECODERS, "similis-read")
        self._closing = Event()
        self._changed = Event()
        if index is None:
            self._changed.set()  # every image of a sample would meet the whole index
        self._watcher = Thread(target=self._estimate, name="similis-threshold", daemon=True)
        self._watcher.start()

    def close(self) -> None:
        """Finish what was begun and close the store, unless another collection has it now."""
        self._closing.set()
        self._changed.set()
        for pool in (self._decoders, self._readers, self._writer):
            pool.shutdown()
        self.batcher.close()
        self._watcher.join()
        if not self.is_replaced:
            self.store.close()

    # On the event loop.

    async def read(self, data: bytes, *, box: Box | None = None, thumbnail: bool = False) -> Upload:
        """Decode an image in a thread of its own."""
        call = lambda: read_upload(data, self.model.preprocessing, self.limits, box=box, thumbnail=thumbnail)  # noqa: E731
        return await asyncio.get_running_loop().run_in_executor(self._decoders, call)

    async def vectors_of(self, uploads: Sequence[Upload]) -> list[Tensor]:
        """Embeddings (D,) of decoded images; those that the gallery knows are not computed again."""
        known = [self.model.gallery.find_vector(upload.digest) if upload.digest else None for upload in uploads]
        new = [upload.pixels for upload, vector in zip(uploads, known, strict=True) if vector is None]
        made = iter(await asyncio.gather(*self.batcher.submit("encode", new)))
        return [next(made) if vector is None else vector for vector in known]

    async def find(self, query: Query) -> Found:
        """Search with a vector, together with the other waiting requests."""
        found: Found = await self.batcher.submit("search", [query])[0]
        return found

    async def in_reader(self, call: Any, *values: Any) -> Any:
        """Call something that reads the store."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, call, *values)

    def replace(self, switch: Callable[[Store], Collection]) -> Collection:
        """The collection that follows this one, whose changes are refused from then on; changes wait meanwhile."""
        made = self._writer.submit(switch, self.store).result()
        self.is_replaced = True
        return made

    async def in_writer(self, call: Any, *values: Any) -> Any:
        """Call something that changes the store; changes are made one after the other."""
        if self._changing >= self.limits.queue:
            raise Refusal(503, "too many changes are waiting; try again in a second", retry_after="1")
        self._changing += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._writer, call, *values)
        finally:
            self._changing -= 1

    # In threads.

    def encode(self, images: list[Any]) -> list[Tensor]:
        """Embeddings of prepared images, as one batch."""
        return list(self.model.encode(images, batch_size=IMAGES))

    def search(self, queries: list[Query]) -> list[Found]:
        """Answers to several queries, in one product for those with the same candidates."""
        held, groups = self.model.gallery.contents(), defaultdict[Any, list[int]](list)
        for row, query in enumerate(queries):
            groups[query.label, query.voters, bool(query.hidden)].append(row)
        found = [Found([], None)] * len(queries)
        for rows in groups.values() if held.entries else ():
            for row, each in zip(rows, self._search_together(held, [queries[row] for row in rows]), strict=True):
                found[row] = each
        return found

    def _search_together(self, held: Contents, queries: Sequence[Query]) -> Iterator[Found]:
        """Answers to queries with one label and one number of voters; all or none of them hide copies."""
        label, voters, vectors = queries[0].label, queries[0].voters, torch.stack([query.vector for query in queries])
        hidden = [query.hidden for query in queries] if queries[0].hidden else None
        most = max(voters, *(query.k for query in queries))
        near = held.search(vectors, min(most, len(held.entries)), hidden, label)
        answers: list[Answer | None] = [None] * len(queries)
        if label is None and len(held.voters.names) > 1:
            _, labels, names = held.voters
            nearest = Neighbors(near.index[:, :voters], near.similarity[:, :voters])
            if not held.all_vote:  # those without labels do not
                nearest = held.search_voters(vectors, voters, hidden)
            answers = name_queries(nearest, labels, names, self.unknown_below, held.label_sizes)
        for query, row, similarity, answer in zip(queries, *map(Tensor.tolist, near), answers, strict=True):
            yield Found(hits(held, row[: query.k], similarity[: query.k]), answer)

    def add(self, items: Sequence[Item]) -> None:
        """Keep items, first on the disk and then in memory."""
        self.check_current()
        vectors = check_finite(torch.stack([item.vector for item in items]))  # what is on the disk has to load again
        self.store.add(items)
        self.model.gallery.add(vectors, [item.entry for item in items])
        self._changed.set()

    def remove(self, id: str | None, label: str | None) -> int:
        """Take out an id, or all items with a label; how many there were."""
        self.check_current()
        gone = self.store.remove(id=id, label=label)
        self.model.gallery.remove(gone)
        self._changed.set()
        return len(gone)

    def check_current(self) -> None:
        """Refuse a change that was begun before another model took over."""
        if self.store.model_hash != self.model.model_hash:
            raise Refusal(503, "the collection has moved to another model; send the change again", retry_after="1")

    def explain(self, query: tuple[str, bytes], item: tuple[Entry, Tensor], picture: bytes, box: Box | None) -> bytes:
        """A PNG of the regions that make an image, or a part of it, and an item similar.

        Args:
            query: a name and an encoded image.
            item: its entry and its vector (D,), by which a search has found it.
            picture: its thumbnail, which is all that the store has of its pixels.
            box: the part of the query; None for all of it.
        """
        given = ((query[1], box), (picture, None))
        images = [read_upload(data, self.model.preprocessing, self.limits, box=part).pixels for data, part in given]
        with self._explaining:
            similarity = float(self.model.similarity(images[0], item[1]))
            figure = self.model.explain(*images, names=(query[0], item[0].id), similarity=similarity).picture
            figure.savefig(held := io.BytesIO(), format="png")
        return held.getvalue()

    def same_threshold(self, far: float) -> float | None:
        """The similarity from which two images are the same at a false accept rate; None if no rates are known."""
        chosen = self.model.chosen
        if chosen is not None and chosen.far == far:
            return chosen.value
        enough = [rate.similarity for rate in self.rates if rate.false_accept <= far]
        return min(enough, default=None)

    def _estimate(self) -> None:
        """Follow the gallery with the threshold of unknown, which is too slow to compute in a request."""
        while not self._closing.is_set():
            self._changed.wait()
            self._changed.clear()
            held, started = self.model.gallery.contents(), perf_counter()  # one moment: labels come and go meanwhile
            if len(held.numbered.names) > 1 and not self._closing.is_set():
                try:
                    self.unknown_below, self.estimate = self.model.limit_of_unknown(held), "current"
                except Exception:
                    self.estimate = "failed"
                    logger.exception("the threshold of unknown was not estimated; the earlier one stays")
            self._closing.wait(PAUSE * (perf_counter() - started))


def parse_vector(data: bytes, dim: int) -> Tensor:
    """D little-endian float32 numbers."""
    if len(data) != 4 * dim:
        raise Refusal(422, f"the body has {len(data):,} bytes; send {dim} little-endian float32 numbers, {4 * dim:,}")
    vector = np.frombuffer(data, dtype="<f4").astype(np.float32)
    if not np.isfinite(vector).all():
        raise Refusal(422, "the vector has numbers that are not finite; send finite ones")
    return torch.from_numpy(vector)
