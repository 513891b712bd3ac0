"""The data market: folders of personal spaces, published as named, versioned, read-only datasets."""
