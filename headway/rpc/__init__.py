"""gRPC among the services: generated code in ``v1``, one place for conversion, channels, servers."""
