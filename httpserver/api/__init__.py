"""The routes under /api/v1. Each one reads its request, asks one part of the service and answers."""
