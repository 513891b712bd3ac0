"""Calls the provider: its description, its keys, the exchange of a code, and what it says of a person."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import httpx
from authlib.oauth2.auth import ClientAuth
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, KeySet

from headway.clock import Clock
from headway.logs import get_logger

from ..settings import ProviderSettings
from .refusals import SignInRefused

log = get_logger(__name__)

_CALL_S: Final = 10.0
_FRESH_S: Final = 3_600.0  # so long the description and the keys are taken as they are
_STALE_S: Final = 86_400.0  # and so long while the provider does not give newer ones
_ASKED_AGAIN_S: Final = 10.0  # for keys that are not known: at most that often
_MOST_BYTES: Final = 1 << 20
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Description:
    """What the provider says of itself."""

    authorization: str
    token: str
    keys: str
    userinfo: str
    algorithms: tuple[str, ...]
    auth_methods: tuple[str, ...]
    names_issuer: bool  # in its answers (RFC 9207)


class ProviderClient:
    """See the module. Every call may raise SignInRefused."""

    def __init__(self, settings: ProviderSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._http = httpx.AsyncClient(timeout=_CALL_S, follow_redirects=False)
        self._described: tuple[float, Description] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._asked_s = -math.inf
        self._asking = asyncio.Lock()

    async def close(self) -> None:
        await self._http.aclose()

    async def description(self) -> Description:
        """The provider's own description, not older than an hour if it answers."""
        async with self._asking:
            now = self._clock.monotonic()
            if self._described is not None and now - self._described[0] < _FRESH_S:
                return self._described[1]
            address = self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
            try:
                found = _described(await self._get(address), self._settings.issuer)
            except SignInRefused as error:
                if self._described is None or now - self._described[0] > _STALE_S:
                    raise
                log.warning("provider.description_old", reason=error.fact)
                return self._described[1]
            self._described = (now, found)
            return found

    async def keys(self, *, anew: bool = False) -> KeySet:
        """The provider's public keys. ``anew``: one was missing, so they are asked for again, now and then."""
        description = await self.description()
        async with self._asking:
            now = self._clock.monotonic()
            if self._keys is not None:
                wanted = now - self._keys[0] >= _FRESH_S or (anew and now - self._asked_s >= _ASKED_AGAIN_S)
                if not wanted:
                    return self._keys[1]
            self._asked_s = now
            try:
                found = _key_set(await self._get(description.keys))
            except SignInRefused as error:
                if self._keys is None or now - self._keys[0] > _STALE_S:
                    raise
                log.warning("provider.keys_old", reason=error.fact)
                return self._keys[1]
            self._keys = (now, found)
            return found

    async def redeem(self, code: str, verifier: str) -> dict[str, Any]:
        """What the provider gives for a code: the ID token and an access token."""
        settings, description = self._settings, await self.description()
        body = urlencode(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": settings.redirect_uri,
                "code_verifier": verifier,
            }
        )
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        method = _auth_method(settings, description)
        auth = ClientAuth(settings.client_id, settings.client_secret, method)
        address, headers, body = auth.prepare("POST", description.token, headers, body)
        status, answer = await self._call("POST", address, headers=headers, content=body)
        error = answer.get("error") if isinstance(answer, dict) else None
        if status in (400, 401, 403) and error in ("invalid_client", "unauthorized_client"):
            raise SignInRefused("secret", fact=f"the provider answered {error} to the exchange of a code")
        if status in (400, 401, 403) and error == "invalid_grant":
            raise SignInRefused("stale", fact="the provider does not take the code (invalid_grant)")
        if status >= 500:
            raise SignInRefused("away", fact=f"{description.token} answered {status}")
        if status != 200 or not isinstance(answer, dict):
            raise SignInRefused("odd", fact=f"{description.token} answered {status} {str(error)[:100]}")
        return answer

    async def userinfo(self, access_token: Any) -> dict[str, Any]:
        """More claims; empty where the provider has no such address."""
        description = await self.description()
        if not description.userinfo or not isinstance(access_token, str):
            return {}
        headers = {"Authorization": f"Bearer {access_token}", "Accept": "application/json"}
        status, answer = await self._call("GET", description.userinfo, headers=headers)
        if status != 200 or not isinstance(answer, dict):
            raise SignInRefused("odd", fact=f"{description.userinfo} answered {status}")
        return answer

    async def _get(self, address: str) -> Any:
        status, answer = await self._call("GET", address, headers={"Accept": "application/json"})
        if status != 200:
            raise SignInRefused("away" if status >= 500 else "odd", fact=f"{address} answered {status}")
        return answer

    async def _call(self, method: str, address: str, **more: Any) -> tuple[int, Any]:
        """Status and JSON; None where it is no JSON."""
        got = bytearray()
        try:
            async with asyncio.timeout(2 * _CALL_S), self._http.stream(method, address, **more) as response:
                async for piece in response.aiter_bytes():
                    got += piece
                    if len(got) > _MOST_BYTES:
                        raise SignInRefused("odd", fact=f"{address} answers too much")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            raise SignInRefused("away", fact=f"{address}: {type(error).__name__}: {str(error)[:200]}") from error
        try:
            return response.status_code, json.loads(bytes(got))
        except (ValueError, RecursionError):
            return response.status_code, None


def _auth_method(settings: ProviderSettings, description: Description) -> str:
    if not settings.client_secret:
        return "none"
    post = "client_secret_post"
    return post if post in description.auth_methods and "client_secret_basic" not in description.auth_methods else (
        "client_secret_basic"
    )  # fmt: skip


def _described(found: Any, issuer: str) -> Description:
    if not isinstance(found, dict) or found.get("issuer") != issuer:
        told = found.get("issuer") if isinstance(found, dict) else None
        raise SignInRefused("odd", fact=f"the provider calls itself {str(told)[:200]!r}, not {issuer!r}")
    places = {name: found.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
    userinfo = found.get("userinfo_endpoint") or ""
    for name, address in {**places, **({"userinfo_endpoint": userinfo} if userinfo else {})}.items():
        if not isinstance(address, str) or not _is_safe(address):
            raise SignInRefused("odd", fact=f"the provider's {name} is no https address: {str(address)[:200]}")
    return Description(
        authorization=places["authorization_endpoint"] or "",
        token=places["token_endpoint"] or "",
        keys=places["jwks_uri"] or "",
        userinfo=userinfo,
        algorithms=_texts(found.get("id_token_signing_alg_values_supported")),
        auth_methods=_texts(found.get("token_endpoint_auth_methods_supported")),
        names_issuer=found.get("authorization_response_iss_parameter_supported") is True,
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _is_safe(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    )


def _key_set(found: Any) -> KeySet:
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list):
        raise SignInRefused("odd", fact="the provider's keys are no set of keys")
    # Secrets have no place there, and keys for other purposes are not for signatures.
    known = [key for key in keys if isinstance(key, dict)]
    usable = [key for key in known if key.get("kty") != "oct" and key.get("use", "sig") == "sig"]
    read = []
    for key in usable:
        try:
            read.append(JWKRegistry.import_key(key))
        except (JoseError, ValueError, TypeError, KeyError) as error:
            log.info("provider.key_left_out", kid=str(key.get("kid"))[:100], reason=str(error)[:200])
    if not read:
        raise SignInRefused("odd", fact="the provider has no key that can be used")
    return KeySet(read)
