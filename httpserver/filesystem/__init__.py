"""Files on the shared mount: system calls, rights, paths and removal."""
