"""A gRPC server of one service.

    server = RpcServer(service, bind="127.0.0.1:7001", token=config.cluster.token)
    add_JobManagerServicer_to_server(Servicer(...), server)        # generated code takes it as it is

The service's life opens and closes it. It listens once all start hooks and side tasks run. From the moment of the
stop it turns calls away, lets the calls in hand finish, and ends streams. Handlers raise HeadwayErrors; anything
else becomes INTERNAL with a request id and one ERROR line. Every call needs the cluster's token, health and
reflection excepted.

With certificates instead of a token the server speaks TLS, and only to clients with a certificate of the cluster. Then
headway/trust/callers.py says who may call what, and handlers may ask headway/trust/caller.py who calls.
"""

from __future__ import annotations

import asyncio
import hmac
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from ..errors import HeadwayError, InvalidInput, PortTaken, Stopping
from ..lifecycle import Service
from ..logs import bound, get_logger
from ..safe_text import valid_text
from ..trust.caller import Caller, set_caller
from . import versions
from .errors_map import (
    MAX_MESSAGE_BYTES,
    MAX_METADATA_BYTES,
    PROBLEM_KEY,
    REQUEST_ID_KEY,
    TOKEN_KEY,
    ClusterTokenWrong,
    problem_bytes,
    status_of,
)

if TYPE_CHECKING:
    from ..metrics.shared import RpcNumbers
    from ..trust.certificates import Certificates

log = get_logger(__name__)

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", 2 * MAX_METADATA_BYTES),
    # Two servers on one port would share the calls between them without a word.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 0),
)


class RpcServer:
    """Listens at `bind` (HOST:PORT; port 0 picks one, see `port`) for as long as `service` runs.

    `token` is the cluster's token, or this process's certificates. Calls are counted in `numbers`, if any. A method
    that the contract does not have is in no number.
    """

    def __init__(
        self, service: Service, *, bind: str, token: str | Certificates, numbers: RpcNumbers | None = None
    ) -> None:
        self._service = service
        self._bind = bind
        self._token = token.encode() if isinstance(token, str) else b""
        self._certificates = None if isinstance(token, str) else token
        if numbers is not None and self._certificates is not None:
            certificates = self._certificates
            numbers.watch_certificate(lambda: certificates.pair()[1].ends_at)
        self._numbers = numbers
        self._grpc = grpc.aio.server(options=_OPTIONS)
        self._names: list[str] = []
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]  # its stubs lack the aio part
        self._health_task: asyncio.Task[None] | None = None
        self._refusing = False
        self._in_hand = 0
        self._nothing_in_hand = asyncio.Event()
        self._nothing_in_hand.set()
        self.port = 0
        service.on_open(self.start)
        service.on_refuse(self.refuse)
        service.on_drain(self.drain)
        service.on_stop(self.stop)

    # -- what generated add_…Servicer_to_server functions call ----------------------------------

    def add_registered_method_handlers(self, service_name: str, handlers: Mapping[str, Any]) -> None:
        """Takes a servicer's methods, each behind the door that checks and translates."""
        wrapped = {name: self._guarded(f"{service_name}/{name}", handler) for name, handler in handlers.items()}
        self._grpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service_name, wrapped),))
        self._names.append(service_name)

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """Nothing: generated code passes the same methods to `add_registered_method_handlers`."""

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listens.

        Raises:
            PortTaken: someone else listens there.
        """
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._grpc)
        names = (*self._names, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
        reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), self._grpc)
        try:
            self.port = self._listen()
        except RuntimeError:
            self.port = 0
        if self.port == 0:
            raise PortTaken(
                f"{self._service.name} can't listen at {self._bind}: another program does, or the address isn't "
                "this machine's. Stop that program or set another `bind`."
            )
        self._service.health.listen(self._show_health)
        await self._grpc.start()

    def _listen(self) -> int:
        if self._certificates is None:
            return self._grpc.add_insecure_port(self._bind)
        from .tls import server_credentials

        return self._grpc.add_secure_port(self._bind, server_credentials(self._certificates))

    def refuse(self) -> None:
        """From now on calls are answered UNAVAILABLE."""
        self._refusing = True

    async def drain(self) -> None:
        """Returns when the calls in hand are answered; streams don't count."""
        await self._nothing_in_hand.wait()

    async def stop(self) -> None:
        """Closes the port and ends what is left. Safe to call twice and without a start."""
        self._refusing = True
        if self._health_task is not None:
            await asyncio.wait((self._health_task,))
        await self._grpc.stop(None)

    def _show_health(self, ready: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
        before = self._health_task

        async def show() -> None:
            if before is not None:
                await asyncio.wait((before,))
            for name in ("", *self._names):
                await self._health.set(name, status)

        self._health_task = asyncio.get_running_loop().create_task(show())

    # -- the door -------------------------------------------------------------------------------

    def _guarded(self, method: str, handler: Any) -> Any:
        if handler.request_streaming:
            # A stream's messages are read one by one, so the bad one is found in the middle.
            handler = handler._replace(
                stream_unary=handler.stream_unary and _checked_stream(handler.stream_unary),
                stream_stream=handler.stream_stream and _checked_stream(handler.stream_stream),
            )
        if handler.response_streaming:
            inner = handler.stream_stream if handler.request_streaming else handler.unary_stream
            behaviour = self._guarded_stream(method, inner)
            make = (
                grpc.stream_stream_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_stream_rpc_method_handler
            )
        else:
            inner = handler.stream_unary if handler.request_streaming else handler.unary_unary
            behaviour = self._guarded_unary(method, inner)
            make = (
                grpc.stream_unary_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_unary_rpc_method_handler
            )
        return make(behaviour, _reading(handler.request_deserializer), handler.response_serializer)

    def _guarded_unary(self, method: str, inner: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        name = method.rpartition(".")[2]

        async def call(request: Any, context: Any) -> Any:
            self._in_hand += 1
            self._nothing_in_hand.clear()
            began_s, code = time.perf_counter(), "OK"
            try:
                request_id, _caller = self._admit(name, context)
                _check(request)
                if not request_id:
                    return await inner(request, context)
                with bound(request_id=request_id):
                    return await inner(request, context)
            except Exception as error:
                code = _code_of(error)
                await _abort(context, method, error)
            except asyncio.CancelledError:
                code = "CANCELLED"
                raise
            finally:
                self._in_hand -= 1
                if not self._in_hand:
                    self._nothing_in_hand.set()
                if self._numbers is not None:
                    self._numbers.answered(name, code, time.perf_counter() - began_s)

        return call

    def _guarded_stream(
        self, method: str, inner: Callable[[Any, Any], AsyncIterator[Any]]
    ) -> Callable[[Any, Any], AsyncIterator[Any]]:
        name = method.rpartition(".")[2]

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            code = "OK"
            if self._numbers is not None:
                self._numbers.opened(name)
            try:
                _request_id, caller = self._admit(name, context)
                _check(request)
                async for reply in inner(request, context):
                    self._still_trusted(caller)
                    yield reply
            except Exception as error:
                code = _code_of(error)
                await _abort(context, method, error)
            except (asyncio.CancelledError, GeneratorExit):
                code = "CANCELLED"
                raise
            finally:
                if self._numbers is not None:
                    self._numbers.closed(name, code)

        return stream

    def _admit(self, method: str, context: Any) -> tuple[str, Caller | None]:
        """Lets a call in or raises; returns its request id, if it has one, and who calls, if certificates say it."""
        token, request_id, theirs = b"", "", versions.MINE
        for key, value in context.invocation_metadata() or ():
            if key == TOKEN_KEY:
                token = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
            elif key == REQUEST_ID_KEY:
                request_id = str(value)[:64]
            elif key == versions.VERSION_KEY:
                theirs = str(value)
        caller = None
        if self._certificates is not None:
            caller = self._certificates.admit(context.auth_context(), method, self._service.name)
            set_caller(caller)
        elif not hmac.compare_digest(token, self._token):
            raise ClusterTokenWrong(
                f"{self._service.name} was called without this cluster's token: give every service the same "
                "`cluster.token_file`."
            )
        if theirs != versions.MINE and not versions.versions_talk(versions.MINE, theirs):
            raise versions.VersionsApart(versions.apart(self._service.name, versions.MINE, theirs))
        if self._refusing:
            raise Stopping(f"{self._service.name} is stopping.")
        return request_id, caller

    def _still_trusted(self, caller: Caller | None) -> None:
        """A stream may last for weeks, and its caller's certificate may be revoked meanwhile."""
        if caller is not None and self._certificates is not None:
            self._certificates.require_not_revoked(caller)


class _Unreadable:
    """Stands for a message whose bytes were none; gRPC itself would tell of a fault inside."""


def _reading(deserializer: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    if deserializer is None:
        return None

    def read(data: bytes) -> Any:
        try:
            return deserializer(data)
        except DecodeError:
            return _Unreadable()

    return read


def _check(request: Any) -> None:
    if isinstance(request, _Unreadable):
        raise InvalidInput("The message can't be read: its bytes are not what this call takes.")


def _checked_stream(inner: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    async def checked(requests: Any) -> AsyncIterator[Any]:
        async for request in requests:
            _check(request)
            yield request

    return lambda requests, context: inner(checked(requests), context)


def _code_of(error: Exception) -> str:
    return status_of(error).name if isinstance(error, HeadwayError) else "INTERNAL"


async def _abort(context: Any, method: str, error: Exception) -> None:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if not isinstance(error, HeadwayError):
        request_id = uuid.uuid4().hex[:12]
        log.error("rpc.crashed", method=method, request_id=request_id, exc=error)
        error = HeadwayError(
            f"Something inside failed; the service's log has it under request id {request_id}.",
            extra={"request_id": request_id},
        )
    message = valid_text(error.message if len(error.message) <= 1_000 else f"{error.message[:1_000]}…")
    await context.abort(status_of(error), message, trailing_metadata=((PROBLEM_KEY, problem_bytes(error)),))
