"""The parts of a comparison below every back-end: tiles, terms and reductions, distances, references, labels."""
