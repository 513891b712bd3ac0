"""The job file: one schema for YAML, JSON, the web form, the command line and Python."""
