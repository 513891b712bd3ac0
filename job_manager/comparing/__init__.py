"""Comparing: what JobManager and TaskManager hold of the same tasks, and how they are brought together again."""
