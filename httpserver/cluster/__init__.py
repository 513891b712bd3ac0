"""The cluster as people see it: queue, scheduling, nodes and usage."""
