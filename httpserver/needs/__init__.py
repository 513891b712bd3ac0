"""What the names in a job mean: images, datasets and code, each pinned to one content at submission."""
