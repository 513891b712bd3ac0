"""Mutual TLS for gRPC: what a server shows, and a channel that begins anew when certificates change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from ..trust.certificates import Certificates
    from ..trust.identity import Identity

Options = Sequence[tuple[str, Any]]


def server_credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Asks every client for a certificate. What changes on the disk counts for the next connection."""
    shown, pair = certificates.pair()

    def latest() -> Any:
        # Called by gRPC before each handshake, from a thread of its own. None: no change.
        nonlocal shown
        now, pair = certificates.pair()
        if now == shown:
            return None
        shown = now
        return grpc.ssl_server_certificate_configuration([(pair.key_pem, pair.cert_pem)], pair.ca_pem)

    first = grpc.ssl_server_certificate_configuration([(pair.key_pem, pair.cert_pem)], pair.ca_pem)
    return grpc.dynamic_ssl_server_credentials(first, latest, True)


class RenewedChannel:
    """Looks like a `grpc.aio.Channel` to stubs. The far side has to be ``whom``.

    gRPC fixes a channel's certificates when it is made. So after a change the next call opens a new one. Calls and
    streams under way end on the old one, which is closed after the last.
    """

    def __init__(self, address: str, whom: Identity, certificates: Certificates, options: Options) -> None:
        self._address = address
        self._certificates = certificates
        self._options = (
            *options,
            ("grpc.ssl_target_name_override", whom.dns_name),
            # Channels of other certificates to the same address share no connection with this one.
            ("grpc.use_local_subchannel_pool", 1),
        )
        self._number = 0
        self._channel: grpc.aio.Channel | None = None
        self._under_way: dict[int, int] = {}
        self._old: dict[int, grpc.aio.Channel] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    def unary_unary(self, *args: Any, **named: Any) -> _Method:
        return _Method(self, lambda channel: channel.unary_unary(*args, **named))

    def unary_stream(self, *args: Any, **named: Any) -> _Method:
        return _Method(self, lambda channel: channel.unary_stream(*args, **named))

    def stream_unary(self, *args: Any, **named: Any) -> _Method:
        return _Method(self, lambda channel: channel.stream_unary(*args, **named))

    def stream_stream(self, *args: Any, **named: Any) -> _Method:
        return _Method(self, lambda channel: channel.stream_stream(*args, **named))

    def current(self) -> tuple[int, grpc.aio.Channel]:
        """The channel for the next call, and its number."""
        number, pair = self._certificates.pair()
        if self._channel is None or (number != self._number and not self._closed):
            before, self._channel = self._channel, self._open(pair.ca_pem, pair.key_pem, pair.cert_pem)
            if before is not None:
                self._old[self._number] = before
                self._let_go(self._number)
            self._number = number
        return self._number, self._channel

    def follow(self, number: int, call: Any) -> None:
        """Keeps the channel of that number until the call has ended."""
        self._under_way[number] = self._under_way.get(number, 0) + 1

        def ended(_call: Any) -> None:
            self._under_way[number] -= 1
            self._let_go(number)

        call.add_done_callback(ended)

    async def close(self, grace: float | None = None) -> None:
        """Ends all calls. Safe to call twice."""
        self._closed = True
        for channel in (self._channel, *self._old.values()):
            if channel is not None:
                await channel.close(grace)

    def _open(self, ca_pem: bytes, key_pem: bytes, cert_pem: bytes) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(ca_pem, key_pem, cert_pem)
        return grpc.aio.secure_channel(self._address, credentials, options=self._options)

    def _let_go(self, number: int) -> None:
        if number in self._old and not self._under_way.get(number):
            self._under_way.pop(number, None)
            closing = asyncio.get_running_loop().create_task(self._old.pop(number).close(None))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


class _Method:
    """One RPC of a stub: made once, called on the channel of that moment."""

    def __init__(self, channel: RenewedChannel, make: Callable[[grpc.aio.Channel], Any]) -> None:
        self._channel = channel
        self._make = make
        self._number = 0
        self._made: Any = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        number, channel = self._channel.current()
        if number != self._number or self._made is None:
            self._number, self._made = number, self._make(channel)
        call = self._made(*args, **named)
        self._channel.follow(number, call)
        return call
