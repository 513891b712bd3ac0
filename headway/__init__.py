"""Headway's kernel: what the five services, the client and the command line share."""
