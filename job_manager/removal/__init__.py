"""Removal: which ended jobs go, by rules or because somebody asks, and how nothing of them stays behind."""
