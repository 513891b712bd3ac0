"""Personal spaces: everything under an account's uid and gid, and never outside its home."""
