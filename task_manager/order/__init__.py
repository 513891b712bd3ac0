"""Order: the policies, the queue that they sort, and the guard around policies of third parties."""
