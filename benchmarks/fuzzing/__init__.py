"""Calls with random and broken contents: the whole HTTP API as an ordinary account, and all gRPC methods."""
