"""Comparing: what JobManager and Workers hold of tasks and attempts that TaskManager has lost."""
