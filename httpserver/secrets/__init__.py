"""Secrets of accounts: stored encrypted, never shown, given to their own tasks at each start."""
