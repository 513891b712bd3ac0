"""The Worker: one process on each machine, which owns the containers there. See docs/architecture.md."""
