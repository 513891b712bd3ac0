"""Snapshots of code: what a task sees at /root/code, frozen when its job was submitted."""
