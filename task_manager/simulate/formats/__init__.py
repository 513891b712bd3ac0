"""The formats of traces: a small module for each, with a table of its columns."""
