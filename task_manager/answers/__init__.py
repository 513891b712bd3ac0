"""Answers: reads for pages and people. Nothing here changes the queue."""
