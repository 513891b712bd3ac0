"""Who may come in: accounts, passwords, sessions, tokens."""
