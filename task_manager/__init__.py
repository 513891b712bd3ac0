"""TaskManager: the queue and the attempts — order, placement, dispatch, leases, retries."""
