"""ResourceManager: owns the nodes, whether they are healthy, whether they may take work, and what they use."""
