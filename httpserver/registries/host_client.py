"""HTTP to hosts that users choose, with limits on size and time. Credentials go to one host only."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from types import TracebackType
from urllib.parse import urljoin, urlsplit

import httpx

from .failure import FailureKind, RegistryFailure
from .hosts import RegistryHosts
from .names import split_host

_CONNECT_S = 3.0
_PAUSE_S = 5.0
_REDIRECTS = 4
_MOVED = frozenset({301, 302, 303, 307, 308})
_AGENT = "headway"


@dataclass(frozen=True, slots=True)
class RegistryResponse:
    """A whole answer."""

    status: int
    headers: httpx.Headers
    body: bytes


class RegistryHttp:
    """The connections of one question; use as an async context manager."""

    def __init__(self, hosts: RegistryHosts, registry: str) -> None:
        self._hosts = hosts
        self._registry = registry  # for the sentences
        self._lines: dict[str, _Line] = {}

    async def __aenter__(self) -> RegistryHttp:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for line in self._lines.values():
            await line.close()

    async def ask(
        self, method: str, url: str, *, headers: Mapping[str, str], authorization: str = "", limit: int
    ) -> RegistryResponse:
        """One answer, redirects followed; ``authorization`` goes to the host of ``url`` and no further.

        Raises:
            RegistryFailure: there is none, or one that is too large.
        """
        start = _origin(url)
        for _ in range(_REDIRECTS + 1):
            own = {"Authorization": authorization} if authorization and _origin(url) == start else {}
            answer = await self._once(method, url, {**headers, **own}, limit)
            if answer.status not in _MOVED:
                return answer
            moved = urljoin(url, answer.headers.get("location", ""))
            scheme = urlsplit(moved).scheme
            if scheme not in ("http", "https") or (url.startswith("https:") and scheme != "https"):
                raise self._strange("redirects to an address that is not allowed")
            url = moved
        raise self._strange("redirects too often")

    async def _once(self, method: str, url: str, headers: Mapping[str, str], limit: int) -> RegistryResponse:
        origin = _origin(url)
        line = self._lines.get(origin)
        if line is None:
            line = self._lines[origin] = await self._connect(origin)
        try:
            async with line.send(method, url, headers) as response:
                return RegistryResponse(response.status_code, response.headers, await self._body(response, limit))
        except httpx.TimeoutException as error:
            raise RegistryFailure(
                FailureKind.SLOW, f"The registry {self._registry} is too slow to answer now."
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError, ValueError) as error:
            raise self._failure(error) from error

    async def _connect(self, origin: str) -> _Line:
        parts = urlsplit(origin)
        host, scheme = parts.hostname or "", parts.scheme
        if scheme == "http" and not self._hosts.plain(parts.netloc):
            raise self._strange("asks for plain http, which would send passwords unencrypted")
        verify = await self._hosts.tls()
        proxy = self._hosts.proxy(scheme, host)
        if proxy is not None:
            return _Line(origin, (), verify, proxy)
        port = parts.port or (443 if scheme == "https" else 80)
        return _Line(origin, await self._hosts.addresses(host, port, self._registry), verify, None)

    async def _body(self, response: httpx.Response, limit: int) -> bytes:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise self._strange("answers with a compression that was not asked for")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > limit:
                raise self._strange(f"answers more than the {limit} bytes that are read")
        return bytes(body)

    def _strange(self, what: str) -> RegistryFailure:
        return RegistryFailure(FailureKind.STRANGE, f"The registry {self._registry} {what}.")

    def _failure(self, error: BaseException) -> RegistryFailure:
        chain = list(_chain(error))
        for cause in chain:
            if isinstance(cause, ssl.SSLCertVerificationError):
                why = f"its certificate is not trusted on this machine ({cause.verify_message})"
                return RegistryFailure(FailureKind.UNREACHABLE, f"The registry {self._registry} can't be asked: {why}.")
        if any(isinstance(cause, ssl.SSLError) for cause in chain):
            return RegistryFailure(
                FailureKind.UNREACHABLE,
                f"The registry {self._registry} does not speak https; if it is meant to speak plain http, an admin "
                "names it in httpserver.insecure_registries.",
            )
        if any(isinstance(cause, ConnectionRefusedError) for cause in chain) or isinstance(error, httpx.ConnectError):
            return RegistryFailure(
                FailureKind.UNREACHABLE, f"The registry {self._registry} can't be reached: nobody listens there."
            )
        if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
            return RegistryFailure(FailureKind.UNREACHABLE, f"The registry {self._registry} closed the connection.")
        return self._strange("answers something that is not understood")


class _Line:
    """Requests to one origin, at the addresses that were checked. A client of its own for each: connections of two
    hosts at one address must not be mixed up."""

    def __init__(self, origin: str, addresses: Sequence[str], tls: ssl.SSLContext, proxy: str | None):
        self._addresses = list(addresses)
        parts = urlsplit(origin)
        self._netloc = parts.netloc
        self._name = parts.hostname or ""
        self._proxied = proxy is not None
        self._client = httpx.AsyncClient(
            verify=tls,
            proxy=proxy,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(_PAUSE_S, connect=_CONNECT_S),
            limits=httpx.Limits(max_connections=2),
        )

    @contextlib.asynccontextmanager
    async def send(self, method: str, url: str, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        response = await self._first(method, httpx.URL(url), headers)
        try:
            yield response
        finally:
            await response.aclose()

    async def _first(self, method: str, url: httpx.URL, headers: Mapping[str, str]) -> httpx.Response:
        # Cookies of one answer have no business in the next question.
        self._client.cookies.clear()
        if self._proxied:
            return await self._client.send(self._request(method, url, headers), stream=True)
        while True:
            address = self._addresses[0]
            try:
                return await self._client.send(self._request(method, url.copy_with(host=address), headers), stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if len(self._addresses) == 1:
                    raise
                self._addresses.pop(0)

    def _request(self, method: str, url: httpx.URL, headers: Mapping[str, str]) -> httpx.Request:
        request = self._client.build_request(
            method,
            url,
            headers={**headers, "Host": self._netloc, "Accept-Encoding": "identity", "User-Agent": _AGENT},
        )
        if not _is_address(self._name):
            request.extensions["sni_hostname"] = self._name
        return request

    async def close(self) -> None:
        await self._client.aclose()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    host, port = split_host(parts.netloc.rpartition("@")[2])
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown.lower()}{f':{port}' if port else ''}"


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in found:
        found.append(at)
        at = at.__cause__ or at.__context__
    return found


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
