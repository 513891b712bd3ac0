"""Needs: what the names in a job stand for, and who holds images, datasets and code."""
