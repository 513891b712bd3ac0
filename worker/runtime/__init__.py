"""What runs containers: Docker Engine, or a script that only pretends to."""
