"""What runs containers: Docker Engine, or a script that only simulates them."""
