"""Market: commands for images, datasets, and who may use them."""
