"""`headway` as another version of itself, with messages that have a field which nobody knows.

    python -m tests.support.as_version 0.2.0 serve worker --config …

What it sends differs from this version as a later one's would: each message has one field more. It reads as any other.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from typing import Any

# Field 9,999, a varint: no .proto file has it, in no message.
UNKNOWN_FIELD = b"\xf8\xf0\x04\x01"


def pretend(version: str) -> None:
    """From here on this process is Headway of that version. Before anything of Headway is imported."""
    real = importlib.metadata.version

    def told(distribution_name: str) -> str:
        return version if distribution_name in ("headway", "headway-server") else real(distribution_name)

    importlib.metadata.version = told
    _widen_requests()
    _widen_answers()


def _widened(serialize: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    return lambda message: serialize(message) + UNKNOWN_FIELD


def _widen_requests() -> None:
    from grpc.aio import _channel

    for name in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
        make = getattr(_channel.Channel, name)

        def widened(
            channel: Any, method: Any, request_serializer: Any = None, *rest: Any, make: Any = make, **more: Any
        ) -> Any:
            return make(channel, method, _widened(request_serializer), *rest, **more)

        setattr(_channel.Channel, name, widened)


def _widen_answers() -> None:
    from headway.rpc.server import RpcServer

    guarded = RpcServer._guarded

    def widened(server: RpcServer, method: str, handler: Any) -> Any:
        made = guarded(server, method, handler)
        return made._replace(response_serializer=_widened(made.response_serializer))

    RpcServer._guarded = widened  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    pretend(sys.argv[1])
    sys.argv[:] = ["headway", *sys.argv[2:]]
    from headway.cli.main import main

    main()
