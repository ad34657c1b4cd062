"""What the server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Requests by route and status, their seconds, and sizes of batches."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("similis_requests", "Requests answered.", ("route", "status"), registry=self.registry)
        self.seconds = Histogram(
            "similis_request_seconds", "Time of a request.", ("route",), buckets=SECONDS, registry=self.registry
        )
        self.batches = Histogram(
            "similis_batch_size", "Inputs computed at once.", ("work",), buckets=SIZES, registry=self.registry
        )
        self.gauges = {
            "queue_length": Gauge("similis_queue_length", "Inputs that wait.", registry=self.registry),
            "items": Gauge("similis_items", "Items of the collection.", registry=self.registry),
        }

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)

    def count_batch(self, work: str, size: int) -> None:
        """Count inputs that were computed at once."""
        self.batches.labels(work).observe(size)

    def text(self, gauges: Mapping[str, float]) -> bytes:
        """All of it in the text format, with values of the moment."""
        for name, value in gauges.items():
            self.gauges[name].set(value)
        return generate_latest(self.registry)
