"""``headway simulate``: a workload of the past, or of imagination, under the very pass that serves the live queue."""
