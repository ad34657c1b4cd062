"""What the server counts, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from threading import Lock

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Histogram:
    """Counts of values in buckets, one series for each label."""

    def __init__(self, name: str, about: str, label: str, edges: tuple[float, ...]) -> None:
        self.name, self.about, self.label, self.edges = name, about, label, edges
        self._counts: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()
        self._lock = Lock()

    def observe(self, series: str, value: float) -> None:
        """Count one value."""
        with self._lock:
            counts = self._counts.setdefault(series, [0] * (len(self.edges) + 1))
            counts[bisect_left(self.edges, value)] += 1
            self._sums[series] += value  # type: ignore[assignment]  # a Counter adds floats as well

    def lines(self) -> list[str]:
        """The series as text."""
        found = [f"# HELP {self.name} {self.about}", f"# TYPE {self.name} histogram"]
        with self._lock:
            for series, counts in self._counts.items():
                key, total = f'{self.label}="{series}"', 0
                for edge, count in zip((*self.edges, "+Inf"), counts, strict=True):
                    total += count
                    found.append(f'{self.name}_bucket{{{key},le="{edge}"}} {total}')
                found += [f"{self.name}_sum{{{key}}} {self._sums[series]}", f"{self.name}_count{{{key}}} {total}"]
        return found


class Metrics:
    """Requests by route and status, their seconds, and sizes of batches."""

    def __init__(self) -> None:
        self.seconds = Histogram("similis_request_seconds", "Time of a request.", "route", SECONDS)
        self.batches = Histogram("similis_batch_size", "Inputs computed at once.", "work", SIZES)
        self._requests: Counter[tuple[str, int]] = Counter()

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request; called from the event loop only."""
        self._requests[route, status] += 1
        self.seconds.observe(route, seconds)

    def text(self, gauges: Mapping[str, float]) -> str:
        """All of it, with values of the moment."""
        found = ["# HELP similis_requests_total Requests answered.", "# TYPE similis_requests_total counter"]
        found += [
            f'similis_requests_total{{route="{route}",status="{status}"}} {count}'
            for (route, status), count in sorted(self._requests.items())
        ]
        for name, value in gauges.items():
            found += [f"# TYPE similis_{name} gauge", f"similis_{name} {value}"]
        return "\n".join([*found, *self.seconds.lines(), *self.batches.lines(), ""])
