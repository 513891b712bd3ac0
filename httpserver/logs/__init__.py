"""Logs of tasks. Those of live attempts come from the worker, those of ended attempts from the shared mount."""
