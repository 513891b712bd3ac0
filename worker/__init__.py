"""One a machine: owns the containers there. See docs/architecture.md."""
