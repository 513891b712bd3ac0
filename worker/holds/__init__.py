"""Holds: GPUs that a person's own process on this machine has, in the queue like any task (docs/gpus.md)."""
