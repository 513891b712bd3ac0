"""The routes under /api/v1, thin: each reads its request, asks one part of the service and answers."""
