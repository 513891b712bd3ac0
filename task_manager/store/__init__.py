"""Store: what TaskManager keeps, as SQL."""
