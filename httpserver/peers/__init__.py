"""The other services, as HttpServer calls and watches them."""
