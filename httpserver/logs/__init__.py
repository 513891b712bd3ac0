"""The bytes that tasks wrote: live ones from the worker, ended ones from the shared mount."""
