"""HttpServer: the only service that people call. It owns accounts, tokens and personal spaces, and asks the other
services for the rest."""
