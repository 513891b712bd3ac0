"""Cluster: queue, machines, decisions and usage as people see them."""
