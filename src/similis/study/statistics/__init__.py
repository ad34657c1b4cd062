"""What the results say: variance components, significance, verdicts, sums of ranks."""
