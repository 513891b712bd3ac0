"""Uses: which jobs need which images, datasets and snapshots of code, so that none is deleted too soon."""
