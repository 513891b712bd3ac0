"""Who may sign in: accounts, groups, passwords, sessions and tokens."""
