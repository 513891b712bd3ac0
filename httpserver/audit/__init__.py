"""The audit log: one line for each change that a person or a program asked for."""
