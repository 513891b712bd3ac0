"""The graph of a job's tasks: whether it is one, what may run in it, and the state that follows for the job."""
