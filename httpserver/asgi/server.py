"""The HTTP server itself: uvicorn, started and stopped with the service."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from headway.errors import ConfigInvalid, HeadwayError, PortTaken
from headway.logs import get_logger

from .certificate import PageCertificate
from .protocol import LimitedHttpProtocol

log = get_logger(__name__)

_BACKLOG = 1024
_LAST_ANSWERS_S = 5


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals belong to the service, which stops its parts in order.
        yield


class WebServer:
    """Listens at ``host`` and ``port`` (0 picks one, see ``port``)."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, tls_cert: str = "", tls_key: str = "") -> None:
        self._host = host
        self.port = port
        self._socket: socket.socket | None = None
        self._config = uvicorn.Config(
            app,
            http=LimitedHttpProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # the request guard reads them, from trusted proxies only
            timeout_keep_alive=75,
            timeout_graceful_shutdown=_LAST_ANSWERS_S,
        )
        self._certificate = PageCertificate(tls_cert, tls_key) if tls_cert else None
        self._server = _Server(self._config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listens.

        Raises:
            PortTaken: someone else does.
            ConfigInvalid: the address isn't this machine's, or certificate and key can't be used.
        """
        self._socket = _bound(self._host, self.port)
        self.port = self._socket.getsockname()[1]
        self._config.load()
        if self._certificate is not None:
            self._config.ssl = self._certificate.open()
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="web")
        while not self._server.started:
            if self._serving.done():
                self._serving.result()
                raise HeadwayError("The web server ended before it was ready.")
            await asyncio.sleep(0.005)
        log.info("http.listening", host=self._host, port=self.port, tls=self._certificate is not None)

    async def serve(self) -> None:
        """Returns, or raises, when the server has ended."""
        if self._serving is not None:
            await asyncio.shield(self._serving)

    async def stop(self) -> None:
        """Takes no new connections, lets answers finish for a few seconds, then cuts. Safe to call twice."""
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.wait((self._serving,), timeout=_LAST_ANSWERS_S + 2)
        if self._socket is not None:
            self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ConfigInvalid(f"httpserver.bind is {host!r}, which is no address of this machine.") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"The port {port} at {host} is taken: stop the program that listens there, or choose another with "
                "`--port` or `httpserver.port`."
            ) from error
        raise ConfigInvalid(f"httpserver can't listen at {host}, port {port}: {error.strerror}.") from error
    return listener
