"""Decisions: the log of what each pass saw and decided. Each stored pass can be replayed."""
