"""Resumable uploads: the protocol tus 1.0.0, and what happens once all bytes are there."""
