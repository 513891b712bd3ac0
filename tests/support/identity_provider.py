"""A provider of identities that signs whatever a test asks for: also what no honest provider would."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "headway", "a secret of the client"


def a_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


@dataclass
class IdentityProvider:
    """What it will say. ``claims`` come on top of honest ones; one that is None is left out.

    ``sign``: rs256, none, hs256 (by its public key as a secret), other_key, or empty for no token at all.
    """

    issuer: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)  # by userinfo
    description: dict[str, Any] = field(default_factory=dict)  # on top of an honest one
    sign: str = "rs256"
    status: int = 200  # of all answers
    error: str = ""  # of the exchange of a code
    send_back: dict[str, str] = field(default_factory=dict)  # on top of an honest way back
    key: RSAKey = field(default_factory=lambda: a_key("one"))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)  # what was asked, by code
    agreed: int = 0
    asked: list[str] = field(default_factory=list)  # paths, in order
    exchanges: list[dict[str, str]] = field(default_factory=list)

    def turn_key(self, kid: str) -> None:
        """It signs by a new key from now on, and has forgotten the old one."""
        self.key = a_key(kid)

    def authorize(self, url: str) -> str:
        """A person agrees: the address that the browser is sent back to."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self.agreed += 1
        code = f"code-{self.agreed}"
        self.codes[code] = query
        back = {"code": code, "state": query["state"], **self.send_back}
        return f"{query['redirect_uri']}?{urlencode({name: value for name, value in back.items() if value})}"

    def token(self, nonce: str) -> str | None:
        now = int(time.time())
        honest = {
            "iss": self.issuer, "sub": "s-1", "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce,
            "preferred_username": "ada",
        }  # fmt: skip
        claims = {name: value for name, value in {**honest, **self.claims}.items() if value is not None}
        header = {"alg": "RS256", "kid": self.key.kid}
        if self.sign == "none":
            packed = [_packed(json.dumps(part).encode()) for part in ({"alg": "none"}, claims)]
            return f"{packed[0]}.{packed[1]}."
        if self.sign == "hs256":
            packed = [_packed(json.dumps(part).encode()) for part in ({"alg": "HS256", "kid": self.key.kid}, claims)]
            signed = ".".join(packed)
            public = self.key.as_pem(private=False)
            return f"{signed}.{_packed(hmac.new(public, signed.encode(), hashlib.sha256).digest())}"
        if self.sign == "other_key":
            return jwt.encode(header, claims, a_key(str(self.key.kid)))
        return jwt.encode(header, claims, self.key) if self.sign else None

    # -- over HTTP

    def answer(self, method: str, path: str, body: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if self.status != 200:
            return self.status, {"error": "server_error"}
        if path == "/.well-known/openid-configuration":
            places = {
                "authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys",
                "userinfo_endpoint": "userinfo",
            }  # fmt: skip
            honest: dict[str, Any] = {name: f"{self.issuer}/{place}" for name, place in places.items()}
            return 200, {"issuer": self.issuer, **honest, **self.description}
        if path == "/keys":
            return 200, {"keys": [self.key.as_dict(private=False)]}
        if path == "/userinfo":
            return 200, {"sub": self.claims.get("sub", "s-1"), **self.told}
        if path == "/token" and method == "POST":
            return self._exchange({name: values[0] for name, values in parse_qs(body).items()})
        return 404, {}

    def _exchange(self, sent: dict[str, str]) -> tuple[int, dict[str, Any]]:
        self.exchanges.append(sent)
        asked = self.codes.pop(sent.get("code", ""), None)
        if self.error:
            return 401 if self.error == "invalid_client" else 400, {"error": self.error}
        if asked is None:
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        if _packed(digest) != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": "a", "token_type": "Bearer", "id_token": self.token(asked["nonce"])}


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@contextmanager
def an_identity_provider() -> Iterator[IdentityProvider]:
    """One that listens on a free port of this machine."""
    provider = IdentityProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length).decode()
            status, answer = provider.answer(self.command, urlsplit(self.path).path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
