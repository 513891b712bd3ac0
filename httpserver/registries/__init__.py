"""Registries: what they say of an image's name, and the credentials that accounts gave for them."""
