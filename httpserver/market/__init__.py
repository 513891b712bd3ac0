"""The image market: names, tags and rights over the images on the shared mount."""
