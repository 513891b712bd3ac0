"""HttpServer: the one door for people. Owns accounts, tokens and personal spaces; asks the other services for the
rest."""
