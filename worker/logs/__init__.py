"""Logs: an attempt's output, from the spool to the shared mount and to readers."""
