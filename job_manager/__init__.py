"""JobManager: owns jobs and tasks, checks the DAG, releases tasks as their needs end, ends every job."""
