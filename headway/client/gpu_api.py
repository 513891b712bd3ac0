"""The few calls that a wait for GPUs needs, without the HTTP library: that takes longer to load than the grant.

Behind a proxy the library is used all the same.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from ..errors import HeadwayError, Unavailable, by_slug
from .profile import Profile, checked_token
from .proxies import proxy_for

_TIMEOUT_S = 30.0


class Refusal(HeadwayError):
    """The server refused; ``status`` is the HTTP status."""

    def __init__(self, message: str, *, status: int, kind: type[HeadwayError]) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class GpuApi:
    """One server, as one account.

    Raises:
        ConfigInvalid: address or token can't be used.
    """

    def __init__(self, profile: Profile, environ: Mapping[str, str] | None = None) -> None:
        self._url = profile.url
        self._token = checked_token(profile.token, profile.source)
        self._proxied = proxy_for(profile.url, os.environ if environ is None else environ) is not None
        self._profile = profile
        self._open: http.client.HTTPConnection | None = None
        if not self._token:
            raise Refusal(
                "You are not signed in on this machine, so nobody knows who asks.",
                status=401,
                kind=HeadwayError,
            )

    def ask(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Queue for GPUs. Safe twice with the same key."""
        return self._call("POST", "/gpu-holds", wanted)

    def task(self, job: str, task: str) -> dict[str, Any]:
        return self._call("GET", f"/jobs/{quote(job)}/tasks/{quote(task)}")

    def withdraw(self, job: str) -> None:
        self._call("POST", f"/jobs/{quote(job)}/cancel")

    def close(self) -> None:
        """Safe twice."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        for again in (True, False):
            try:
                status, answer = self._send(method, f"/api/v1{path}", data, headers, fresh=not again)
                break
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not again:
                    what = getattr(error, "strerror", None) or type(error).__name__
                    raise Unavailable(
                        f"Headway does not answer at {self._url} ({what}): is it running, and is the address right? "
                        "HEADWAY_URL or `headway login` names another."
                    ) from error
        try:
            found = json.loads(answer)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Unavailable(f"What answers at {self._url} isn't Headway (status {status}): is the address right?")
        if status >= 400:
            slug = str(found.get("slug", ""))
            raise Refusal(str(found.get("detail") or f"status {status}"), status=status, kind=by_slug(slug))
        return found

    def _send(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str], *, fresh: bool
    ) -> tuple[int, bytes]:
        parts = urlsplit(self._url)
        if self._proxied:
            return self._through_proxy(method, path, data, headers)
        if fresh:
            self.close()
        if self._open is None:
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            self._open = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
        self._open.request(method, parts.path.rstrip("/") + path, data, headers)
        response = self._open.getresponse()
        return response.status, response.read()

    def _through_proxy(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        import httpx

        from .connection import Connection

        connection = Connection(self._profile, timeout_s=_TIMEOUT_S)
        try:
            response = connection.http.request(method, path, content=data, headers=headers)
        except httpx.TransportError as error:
            raise connection.no_answer(error) from error
        finally:
            connection.http.close()
        return response.status_code, response.content
