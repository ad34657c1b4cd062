"""Objectives around a loss: a memory of earlier batches, nested sizes, language guidance."""
