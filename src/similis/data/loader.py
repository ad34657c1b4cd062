"""The loader: batches of row numbers in, Batch values out; the same bits for any number of workers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from similis.data.examples import Data, Request
from similis.data.transforms import policy_of
from similis.values import Batch, SimilisError, UserError, pin, send


class _Fetch(torch.utils.data.Dataset[Tensor | SimilisError]):
    """The data as torch's loader wants it: an index is a request."""

    def __init__(self, data: Data) -> None:
        self.data = data

    def __getitem__(self, request: Request) -> Tensor | SimilisError:
        try:
            return self.data.fetch(request)
        except SimilisError as error:  # raised in a worker, torch would put the traceback into its message
            return error


class Loader:
    """Loads batches, in this process or in workers that live as long as the loader.

    One pass at a time: a second pass ends the first. Use two loaders to validate in mid-epoch.

    Args:
        data: images or vectors.
        workers: number of worker processes; 0 to load in this one.
        channels_last: memory format of image batches.
        device: where images go, as bytes and before they are normalised; labels and ids stay on the host, where
            losses plan with them. The next batch is on its way while this one is used.
    """

    def __init__(
        self, data: Data, *, workers: int = 0, channels_last: bool = False, device: torch.device | str = "cpu"
    ) -> None:
        if workers < 0:
            raise UserError(f"workers is a number of processes, at least 0; given {workers}")
        self.data = data
        self.channels_last = channels_last
        self.device = torch.device(device)
        self._queue: list[Request] = []  # of one pass; filled anew for each, while the workers live on
        self._workers: DataLoader[Tensor | SimilisError] | None = None
        if workers:
            # A generator of its own: torch's loader would otherwise draw from the global one on every pass.
            self._workers = DataLoader(_Fetch(data), batch_size=None, sampler=self._queue, num_workers=workers,
                                       persistent_workers=True, generator=torch.Generator())  # fmt: skip

    def train(
        self,
        batches: Tensor,
        *,
        policy: str,
        seed: int,
        epoch: int,
        start: int = 0,
        views: int = 1,
        labelled: bool = True,
        size: int | None = None,
    ) -> Iterator[Batch]:
        """The batches of an epoch, from batch number ``start`` on.

        Args:
            batches: (batches, B) row numbers of the manifest, from a sampler (and its shard).
            policy: name of a transform policy.
            seed: of the augmentation.
            epoch: number of the epoch.
            start: where to go on after an interruption.
            views: augmentations of each image; the batch is so many times as long.
            labelled: whether labels are those of the data; else each image is a class of its own, named by its row.
            size: pixels of a side; None for the network's.
        """
        policy_of(policy)
        requests = [Request(rows, policy, seed, epoch, views, size) for rows in batches[start:]]
        return self._load(requests, self.data.labels if labelled else torch.arange(len(self.data.labels)))

    def ordered(self, rows: Tensor, *, batch_size: int) -> Iterator[Batch]:
        """These rows in order, transformed for evaluation; the last batch may be smaller."""
        if batch_size < 1:
            raise UserError(f"batch_size is at least 1; given {batch_size}")
        requests = [Request(part, "eval", 0, 0) for part in torch.split(rows, batch_size) if len(part)]
        return self._load(requests, self.data.labels)

    def _load(self, requests: list[Request], labels: Tensor) -> Iterator[Batch]:
        self._queue[:] = requests
        if self._workers is None:
            fetched: Iterator[Tensor | SimilisError] = (self.data.fetch(request) for request in requests)
        else:
            fetched = iter(self._workers) if requests else iter(())
        ahead: Batch | None = None
        for request, raw in zip(requests, fetched, strict=True):
            if isinstance(raw, SimilisError):
                raise raw
            images = self.data.finish(send(raw, self.device), channels_last=self.channels_last)
            rows = request.rows.repeat(request.views)
            # the consumer copies labels to the device if it needs them there
            batch = Batch(images, pin(labels[rows], self.device), pin(rows, self.device))
            if self.device.type == "cpu":
                yield batch
                continue
            if ahead is not None:
                yield ahead
            ahead = batch
        if ahead is not None:
            yield ahead
