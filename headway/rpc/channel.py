"""Calls to another service: proof of who calls, deadline, retry and errors in one place.

    peer = Peer("TaskManager", config.peers.task_manager, token=token, role=Role.TASK_MANAGER, clock=clock)
    stub = TaskManagerStub(peer.channel)
    reply = await peer.call(stub.ApplyTaskCommands, request, deadline_s=10, idempotent=True)
    async for change in peer.stream(stub.WatchAttempts, request, deadline_s=None):
        ...
    await peer.close()

Failures are HeadwayErrors: those of the far side as they were raised there, `Unavailable` or `DeadlineExceeded` when
it does not answer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import grpc

from ..backoff import Backoff
from ..clock import Clock, SystemClock
from ..errors import HeadwayError, Unavailable
from ..logs import get_logger
from ..trust.identity import Identity, Role
from . import versions
from .errors_map import MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, REQUEST_ID_KEY, TOKEN_KEY, from_rpc_error

if TYPE_CHECKING:
    from ..trust.certificates import Certificates

log = get_logger(__name__)

_FIRST_DELAY_S = 0.05
_LONGEST_DELAY_S = 1.0

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", 2 * MAX_METADATA_BYTES),
    # Retries live here, where it is known which calls bear them.
    ("grpc.enable_retries", 0),
    # A proxy from the environment is meant for the web, never for the cluster's own calls.
    ("grpc.enable_http_proxy", 0),
    # A peer that was restarted is found again within two seconds.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A machine that vanished without a word is noticed within half a minute while a stream is open.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)


class Peer:
    """One other service. Connects by itself on first use; make and use it on one event loop.

    ``token`` is the cluster's token, or this process's certificates. With those, the far side has to show a certificate
    of ``role``, and of the node named ``node`` if it is a Worker.
    """

    def __init__(
        self,
        name: str,
        address: str,
        *,
        token: str | Certificates,
        role: Role | None = None,
        node: str = "main",
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self._certificates = None if isinstance(token, str) else token
        self._whom = Identity(token.identity.cluster, role, node) if not isinstance(token, str) and role else None
        if self._certificates is not None and self._whom is None:
            raise ValueError(f"Nobody said which service {name} has to prove to be.")
        proof = ((TOKEN_KEY, token),) if isinstance(token, str) else ()
        self._metadata: tuple[tuple[str, str], ...] = (*proof, (versions.VERSION_KEY, versions.MINE))
        self._clock: Clock = clock or SystemClock()
        self._channel: grpc.aio.Channel | None = None

    @property
    def channel(self) -> grpc.aio.Channel:
        """For making stubs only: calls go through `call`, `stream` and `upload`."""
        if self._channel is None:
            if self._certificates is None or self._whom is None:
                self._channel = grpc.aio.insecure_channel(self.address, options=_OPTIONS)
            else:
                from .tls import RenewedChannel

                renewed = RenewedChannel(self.address, self._whom, self._certificates, _OPTIONS)
                self._channel = cast(grpc.aio.Channel, renewed)
        return self._channel

    async def close(self) -> None:
        """Ends all calls. Safe to call twice."""
        if self._channel is not None:
            await self._channel.close(None)

    async def call(
        self,
        method: Callable[..., Any],
        request: Any,
        *,
        deadline_s: float,
        idempotent: bool = False,
        wait_for_ready: bool = False,
        request_id: str = "",
    ) -> Any:
        """One request, one answer, within `deadline_s` seconds in all.

        An idempotent call is made again while the peer is away. `wait_for_ready` waits for the connection instead
        of failing at once, which suits background loops.

        Raises:
            HeadwayError: as raised by the far side.
            Unavailable: the peer does not answer.
            DeadlineExceeded: it did not answer in time.
        """
        return await self._retrying(
            lambda timeout_s: method(
                request, timeout=timeout_s, metadata=self._with(request_id), wait_for_ready=wait_for_ready or None
            ),
            deadline_s=deadline_s,
            again=idempotent,
        )

    async def upload(
        self,
        method: Callable[..., Any],
        parts: Callable[[], Iterable[Any] | AsyncIterable[Any]],
        *,
        deadline_s: float,
        idempotent: bool = False,
        again_within_s: float = math.inf,
        request_id: str = "",
    ) -> Any:
        """A stream of parts, one answer. `parts` is called once per try, so that a retry begins anew.

        A peer that is away is waited for `again_within_s` seconds. Its work, once begun, may take to the deadline.

        Raises:
            HeadwayError: as for `call`.
        """
        return await self._retrying(
            lambda timeout_s: method(_steps(parts()), timeout=timeout_s, metadata=self._with(request_id)),
            deadline_s=deadline_s,
            again=idempotent,
            again_within_s=again_within_s,
        )

    async def stream(
        self, method: Callable[..., Any], request: Any, *, deadline_s: float | None, wait_for_ready: bool = False
    ) -> AsyncIterator[Any]:
        """The messages of an answer that is a stream; None as deadline is for watches, which end with the peer.

        Close it (`contextlib.aclosing`) or read it to the end, else the call stays open until collected.

        Raises:
            HeadwayError: as for `call`; a broken watch is `Unavailable`.
        """
        call = method(request, timeout=deadline_s, metadata=self._with(""), wait_for_ready=wait_for_ready or None)
        try:
            async for reply in call:
                yield reply
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, self._described()) from error
        finally:
            call.cancel()

    async def _retrying(
        self, start: Callable[[float], Any], *, deadline_s: float, again: bool, again_within_s: float = math.inf
    ) -> Any:
        began = self._clock.monotonic()
        give_up_at = began + deadline_s
        pauses = Backoff(_FIRST_DELAY_S, _LONGEST_DELAY_S)
        left_s = deadline_s
        while True:
            try:
                return await start(left_s)
            except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
                failure = self._failure(error)
                delay_s = pauses.next_s()
                left_s = give_up_at - self._clock.monotonic() - delay_s
                retryable = again and isinstance(failure, Unavailable) and failure.code == "UNAVAILABLE"
                waited_s = self._clock.monotonic() + delay_s - began
                if not retryable or left_s <= 0 or waited_s > again_within_s:
                    raise failure from error
            await self._clock.sleep(delay_s)

    def _failure(self, error: grpc.aio.AioRpcError | asyncio.CancelledError) -> HeadwayError:
        if isinstance(error, grpc.aio.AioRpcError):
            return from_rpc_error(error, self._described())
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise error
        # gRPC cancels an upload without parts by itself when nobody answers.
        return Unavailable(f"{self._described()} does not answer.")

    def _with(self, request_id: str) -> tuple[tuple[str, str], ...]:
        return (*self._metadata, (REQUEST_ID_KEY, request_id)) if request_id else self._metadata

    def _described(self) -> str:
        return f"{self.name} at {self.address}"


async def _steps(parts: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Any]:
    if isinstance(parts, AsyncIterable):
        async for part in parts:
            yield part
    else:
        for part in parts:
            yield part
