"""Answers: reads for pages, clients and the command line. Nothing here changes the queue."""
