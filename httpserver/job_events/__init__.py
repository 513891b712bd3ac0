"""Job events: what JobManager tells of jobs, kept for a while and read by a cursor; consumers that miss none."""
