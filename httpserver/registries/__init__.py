"""Registries: which image a name means there, and the credentials that accounts stored for them."""
