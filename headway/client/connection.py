"""The way to the server: its address, a proxy where the environment names one, and who else may answer there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from ..errors import ConfigInvalid
from .errors import NoService, NotHeadway, media_of
from .profile import Profile, checked_token
from .proxies import Proxy, proxy_for

_HOST = re.compile(r"[^\s/?#@\\]+")


class Connection:
    """An HTTP client for one profile.

    Raises:
        ConfigInvalid: the address, the token or the proxy of the environment can't be used.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        timeout_s: float,
        transport: httpx.BaseTransport | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.url = checked_url(profile.url)
        token = checked_token(profile.token, profile.source)
        self._proxy = proxy_for(self.url, os.environ if environ is None else environ)
        # To make a context is slow, and plain HTTP needs none.
        secure = any(url.startswith("https:") for url in (self.url, self._proxy.url if self._proxy else ""))
        context = httpx.create_ssl_context() if secure and transport is None else False
        self.http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(timeout_s, connect=5.0),
            transport=transport,
            follow_redirects=False,
            verify=context,
            proxy=_of_httpx(self._proxy, context) if transport is None else None,
            # The environment's proxies are read above, and a password of .netrc must not replace the token.
            trust_env=False,
            # A followed log holds its connection for as long as the task runs, and there may be hundreds.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        )

    @property
    def via(self) -> str:
        """The proxy in words, to stand behind an address; empty without one."""
        return f" through the proxy {self._proxy.shown} that {self._proxy.variable} names" if self._proxy else ""

    def no_answer(self, error: httpx.TransportError) -> NoService:
        """What to tell when nobody answered."""
        what, url = _cause(error), self.url
        if self._proxy is not None:
            host = urlsplit(url).hostname
            return NoService(
                f"Headway does not answer at {url}{self.via} ({what}): are the address and the proxy right? "
                f"NO_PROXY={host} goes without it."
            )
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return NoService(
                f"The certificate of {url} isn't trusted here ({_after_colon(error)}): is the address right? "
                "SSL_CERT_FILE can name a file of authorities to trust."
            )
        if "SSL" in str(error):
            return NoService(f"{url} speaks no TLS ({_after_colon(error)}): is it http:// instead of https://?")
        return NoService(
            f"Headway does not answer at {url} ({what}): is it running, and is the address right? `headway up` starts "
            "it here; HEADWAY_URL or `headway login` names another."
        )


def checked_url(url: str) -> str:
    """The address without a slash at its end.

    Raises:
        ConfigInvalid: it is none.
    """
    told = f"{url[:200]!r} is no address of Headway"
    as_in = "write it as in http://127.0.0.1:8080 (HEADWAY_URL, or `headway login URL`)"
    if not url.isprintable() or url != url.strip():
        raise ConfigInvalid(f"{told}: it has blanks or signs that can't be seen; {as_in}.")
    if not url.startswith(("http://", "https://")):
        hint = f"write http://{url[:200]}" if "://" not in url and url else as_in
        raise ConfigInvalid(f"{told}: an address starts with http:// or https://; {hint}.")
    try:
        parts = urlsplit(url)
        known = httpx.URL(url)
        good = parts.port != 0 and known.host and _HOST.fullmatch(parts.hostname or "") is not None
    except (ValueError, httpx.InvalidURL) as error:
        raise ConfigInvalid(f"{told} ({error}); {as_in}.") from error
    if not good or parts.query or parts.fragment:
        raise ConfigInvalid(f"{told}; {as_in}.")
    if parts.username is not None:
        raise ConfigInvalid("An address of Headway holds no name and no password: use `headway login URL`.")
    return url.rstrip("/")


class Answer(dict[str, Any]):
    """A JSON object that the server sent. A missing name means that it is of somebody else, or of another version."""

    __slots__ = ("_url",)

    def __init__(self, found: Mapping[str, Any], url: str) -> None:
        super().__init__(found)
        self._url = url

    def __missing__(self, name: str) -> Any:
        raise NotHeadway(
            f"The answer of {self._url} has no `{name}`: it isn't Headway that answers there, or its version is "
            "another than this program's. `headway --version` tells this one."
        )


def check_ours(response: httpx.Response) -> None:
    """Looks at the head of an answer that is no refusal.

    Raises:
        NotHeadway: it sends on, or is a page. The API does neither, so a portal's page is never taken for a file.
    """
    if 300 <= response.status_code < 400:
        to = response.headers.get("location", "")[:300]
        raise NotHeadway(
            f"{_address_of(response)} sends on to {to or 'nowhere'} (status {response.status_code}), which Headway "
            "never does: is the address right? A portal, a proxy or http:// instead of https:// does that."
        )
    if media_of(response) in ("text/html", "application/xhtml+xml"):
        raise _not_ours(response)


def read_json(response: httpx.Response) -> Any:
    """The answer's JSON; None for an empty one.

    Raises:
        NotHeadway: it isn't JSON.
    """
    if response.status_code == 204:
        return None
    if "json" not in media_of(response):
        raise _not_ours(response)
    address = _address_of(response)
    try:
        # Each object within it, too: what a row lacks is told like what the whole lacks.
        return response.json(object_hook=lambda found: Answer(found, address))
    except ValueError as error:
        raise _not_ours(response) from error


def _not_ours(response: httpx.Response) -> NotHeadway:
    return NotHeadway(
        f"What answers at {_address_of(response)} isn't Headway (status {response.status_code}, "
        f"{media_of(response)}): is the address right? A portal or a proxy may answer in its place."
    )


def _address_of(response: httpx.Response) -> str:
    return str(response.request.url.copy_with(query=None, fragment=None))


def _cause(error: httpx.TransportError) -> str:
    """The kind of error; of a proxy also its words, which hold its status."""
    said = str(error)[:100] if isinstance(error, httpx.ProxyError) else ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _after_colon(error: Exception) -> str:
    text = re.sub(r"^\[[^]]*\]\s*|\s*\(_ssl\.c:\d+\)", "", str(error))
    return text.rpartition("verify failed: ")[2][:200]


def _of_httpx(proxy: Proxy | None, context: Any) -> httpx.Proxy | None:
    if proxy is None:
        return None
    secure = proxy.url.startswith("https:")
    try:
        return httpx.Proxy(proxy.url, ssl_context=context if secure else None)
    except (httpx.InvalidURL, ValueError) as error:
        raise ConfigInvalid(f"{proxy.variable} names no proxy that can be used: {proxy.shown}.") from error
