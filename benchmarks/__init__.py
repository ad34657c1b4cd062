"""Measurements against a peer or the bare engine, side by side in one run: ``python -m benchmarks.NAME``."""
