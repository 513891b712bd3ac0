"""The web application and the server that runs it: what every request passes before a route sees it."""
