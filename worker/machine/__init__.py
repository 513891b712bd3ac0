"""Machine: what this machine offers, how it is, and who is told."""
