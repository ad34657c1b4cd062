"""Checks of this machine's devices: losses, ranks, memory and speed, in one report for strangers' hardware."""
