"""Writes the pages that follow from the code: losses, miners, conformance, errata."""
