"""Reasons: why a task waits, or could never run, in words and numbers."""
