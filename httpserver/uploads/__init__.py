"""Resumable uploads: the protocol tus 1.0.0, and what becomes of the bytes once they are there."""
