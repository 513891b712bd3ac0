"""Decisions: the log of what each pass saw and decided, and the way back from it."""
