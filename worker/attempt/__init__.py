"""Attempt: an attempt's life on this machine, from its launch to the last byte of its log."""
