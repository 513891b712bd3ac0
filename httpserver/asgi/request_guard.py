"""Checks every request before a route sees it: who sent it, from where, and how much. Adds headers to every answer."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.errors import HeadwayError, NotSignedIn, TooLarge
from headway.logs import bound, get_logger

from ..api.common import COOKIE
from ..auth.sign_in_limits import is_loopback
from ..http import origin, problems
from ..parts import Parts
from ..uploads import tus

log = get_logger(__name__)

API = "/api/v1"
_OPEN = frozenset(
    {
        ("POST", f"{API}/session"),
        ("POST", f"{API}/join"),
        ("GET", f"{API}/session/ways"),
        ("GET", f"{API}/session/provider"),
        ("GET", f"{API}/session/provider/callback"),
        ("POST", f"{API}/session/requests"),
        ("POST", f"{API}/session/requests/poll"),
        ("GET", f"{API}/openapi.json"),
        ("HEAD", f"{API}/openapi.json"),
    }
)

# Browsers load scripts and styles from this server only, so that text which looks like markup stays text.
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = (
    ("Content-Security-Policy", _CONTENT_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)

# The names and hashes of a hundred thousand files; contents in archives of 64 MiB and some headers.
_MANIFEST_BYTES = 64 << 20
_BLOBS_BYTES = 96 << 20

# A client that still sends would lose the answer to a reset connection: so much is read and thrown away first.
_LINGER_BYTES = 256 << 20
_LINGER_S = 5.0
# A client that sends nothing for so long in the middle of a body has gone to sleep.
BODY_PAUSE_S = 60.0


class RequestGuard:
    """The outermost ASGI layer. It also turns errors that nothing else caught into problems."""

    def __init__(self, app: ASGIApp, parts: Parts) -> None:
        self._app = app
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(self._parts, scope, receive, send)
        with bound(request_id=request.id):
            await request.run(self._app)


class _Request:
    def __init__(self, parts: Parts, scope: Scope, receive: Receive, send: Send) -> None:
        self.id = secrets.token_hex(8)
        self._parts = parts
        self._scope = scope
        self._receive = receive
        self._send = send
        self._headers = Headers(scope=scope)
        self._started = False
        self._ended = False
        self._unread: HeadwayError | None = None  # why the body was not read to its end
        self._status = 0
        self._more = True  # of the body
        self._got = 0
        self._limit: int | None = None
        self._cookie: str | None = None
        self._began = time.perf_counter()
        self._hash = ""  # of the session or token that it came with
        self._over = False  # that one has ended meanwhile
        self._reads_no_more = False  # and its account is shut out
        self._whole: asyncio.Timeout | None = None  # runs out when the request is to be cut
        self._pause: asyncio.Timeout | None = None  # of the body

    async def run(self, app: ASGIApp) -> None:
        self._scope["headway.request_id"] = self.id
        try:
            self._check()
            if self._acts_for_nobody():
                await self._wait_for_the_end()
                raise ClientDisconnect
            await self._run_while_signed_in(app)
            if self._unread is not None and not self._started:
                raise self._unread
        except HeadwayError as error:
            await self._fail(error)
        except ClientDisconnect:
            # It broke off in the middle of its request: nobody is there to be answered, and nothing failed here.
            log.info("http.client_gone", method=self._scope["method"], path=self._scope["path"], bytes=self._got)
        except Exception as error:
            if isinstance(error.__cause__, HeadwayError):
                # So Starlette says that it came after the answer had begun.
                await self._fail(error.__cause__)
                return
            log.error("http.failed", method=self._scope["method"], path=self._scope["path"], exc=error)
            await self._fail(HeadwayError(problems.INSIDE))
        finally:
            route = getattr(self._scope.get("route"), "path", "other")
            seconds = time.perf_counter() - self._began
            self._parts.numbers.count_request(self._scope["method"], route, self._status, seconds)
            self._parts.audit.ended(
                self._scope.get("headway.audit"), self._status, self._scope.get("headway.problem", "")
            )

    async def _run_while_signed_in(self, app: ASGIApp) -> None:
        if not self._hash:
            await app(self._scope, self._counted, self._answer_of_app)
            return
        try:
            with self._parts.accounts.requests.entered(self._hash, self._end):
                async with asyncio.timeout(None) as self._whole:
                    await app(self._scope, self._counted, self._answer_of_app)
        except TimeoutError:
            if not self._over:
                raise
            raise _over() from None

    def _end(self, shut_out: bool) -> None:
        """The session or token has ended. A stream is cut at once.

        What changes something is done to its end, since half of it would be worse. Who is shut out sends no more of it.
        """
        self._over = True
        self._reads_no_more |= shut_out
        now = asyncio.get_running_loop().time()
        if self._started and self._whole is not None:
            self._whole.reschedule(now)
        elif shut_out and self._pause is not None:
            self._pause.reschedule(now)

    def _acts_for_nobody(self) -> bool:
        """Whether it would change something although its client has given up, as while the server hung.

        Pieces of uploads are kept all the same: their client goes on behind them.
        """
        method, path = self._scope["method"], self._scope["path"]
        if method in origin.SAFE_METHODS or not path.startswith(f"{API}/") or tus.takes_any_size(method, path):
            return False
        gone = self._scope.get("headway.gone")
        return gone is not None and gone()

    async def _wait_for_the_end(self) -> None:
        """Else the server would want an answer: it has not read yet that the line is closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while (await self._receive())["type"] != "http.disconnect":
                    pass

    # -- before the route -----------------------------------------------------------------------

    def _check(self) -> None:
        self._scope = tus.overridden(self._scope, self._headers.get("x-http-method-override"))
        settings, headers, scope = self._parts.settings, self._headers, self._scope
        found = origin.find(
            peer=(scope.get("client") or ("",))[0],
            scheme="https" if settings.secure else scope.get("scheme", "http"),
            host=headers.get("host", ""),
            forwarded_for=",".join(headers.getlist("x-forwarded-for")),
            forwarded_proto=headers.get("x-forwarded-proto", ""),
            forwarded_host=headers.get("x-forwarded-host", ""),
            trusted=settings.trusted_proxies,
        )
        scope["headway.client"] = found.client
        # Behind a proxy a cookie never goes over a line that is not encrypted.
        scope["headway.secure"] = found.secure or bool(settings.trusted_proxies)
        path, method = scope["path"], scope["method"]
        health = path in ("/healthz", "/readyz", "/metrics")
        if not health and not origin.host_allowed(found.host, settings.hosts):
            raise problems.WrongHost(
                f"Headway runs at {settings.where} and is not open under the name `{origin.host_name(found.host)}`. "
                "On that machine open its own address; from elsewhere make a tunnel (ssh -L 8080:127.0.0.1:8080 …), "
                "or let an admin set `bind` with TLS or `behind_proxy` in headway.toml."
            )
        if not health and self._is_plain(found):
            raise problems.NotByProxy(
                f"Headway takes no unencrypted calls but its proxy's: open {settings.where}. If this came through the "
                "proxy, it must send `X-Forwarded-For` and `X-Forwarded-Proto: https` and be named in `behind_proxy`."
            )
        if "\n" in path:
            # File names may hold line breaks, and the router's patterns stop at them. Whoever needs the exact name
            # reads raw_path.
            scope["path"] = path = path.replace("\n", "\N{SYMBOL FOR LINE FEED}")
        self._limit = self._limit_of(method, path)
        self._check_length()
        if path.startswith(API + "/"):
            self._identify(found, (method, path) in _OPEN)
            self._refuse_packed()

    def _is_plain(self, found: origin.Origin) -> bool:
        """Whether it came in plain text over a network. What programs of this machine send never leaves it."""
        if not self._parts.settings.trusted_proxies or found.secure:
            return False
        return found.proxied or not is_loopback((self._scope.get("client") or ("",))[0])

    def _identify(self, found: origin.Origin, open_to_all: bool) -> None:
        scope, headers = self._scope, self._headers
        method = scope["method"]
        changes = method not in origin.SAFE_METHODS
        authorization = headers.get("authorization")
        secret, by_cookie = "", False
        if authorization is not None:
            kind, _, secret = authorization.partition(" ")
            secret = secret.strip() if kind.lower() == "bearer" else ""
        elif (cookie := _cookie(headers.getlist("cookie"))) is not None:
            secret, by_cookie = cookie, True
        known = self._parts.accounts.who(secret) if secret else None
        if known is None and not open_to_all:
            raise (
                _over()
                if secret
                else NotSignedIn("Sign in first: send the session's cookie, or a token as `Authorization: Bearer …`.")
            )
        if changes and authorization is None:
            self._refuse_foreign_pages(found, by_cookie=by_cookie and not open_to_all)
        if known is not None:
            scope["headway.account"] = known.account
            scope["headway.token"] = secret
            scope["headway.way"] = f"{'session' if known.session else 'token'} {known.id}"
            self._hash = known.hash
            if by_cookie and known.renewed_until is not None:
                self._cookie = _set_cookie(secret, self._parts.settings.session_s, secure=scope["headway.secure"])

    def _refuse_foreign_pages(self, found: origin.Origin, *, by_cookie: bool) -> None:
        headers = self._headers
        site, source = headers.get("sec-fetch-site", ""), headers.get("origin", "")
        media = headers.get("content-type", "").partition(";")[0].strip().lower()
        if media in origin.FORM_TYPES:
            raise problems.UnsupportedMedia(
                f"Content of the type {media} is not read here: send application/json"
                " (a job file may be application/yaml, a file application/octet-stream)."
            )
        if by_cookie:
            referer = headers.get("referer", "")
            refused = not origin.same_origin(
                site=site, origin=source, referer=referer, host=found.host, secure=found.secure
            )
        else:
            refused = origin.from_elsewhere(site=site, origin=source, host=found.host, secure=found.secure)
        if refused:
            raise problems.CrossSite(
                "A page of another site may not act here with this browser's session. Programs send their token "
                "as `Authorization: Bearer …` instead of the cookie."
            )

    def _refuse_packed(self) -> None:
        packing = self._headers.get("content-encoding", "").strip().lower()
        if packing not in ("", "identity"):
            raise problems.UnsupportedMedia(
                "A packed body is not read here: send it as it is, without the header Content-Encoding."
            )

    def _limit_of(self, method: str, path: str) -> int | None:
        settings = self._parts.settings
        if path.startswith(f"{API}/files") and method == "PUT":
            return settings.max_file_bytes
        if tus.takes_any_size(method, path):
            return None
        if path == f"{API}/code" and method == "POST":
            return _MANIFEST_BYTES
        if path == f"{API}/code/blobs" and method == "PUT":
            # A content that is larger than a usual archive of them comes alone.
            return max(_BLOBS_BYTES, settings.code_max_bytes + _MANIFEST_BYTES)
        if path in (f"{API}/jobs", f"{API}/queue/preview") and method == "POST":
            return settings.max_job_bytes
        return settings.max_body_bytes

    def _check_length(self) -> None:
        length = self._headers.get("content-length", "")
        if self._limit is not None and length.isdigit() and int(length) > self._limit:
            raise self._too_large()

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The body is larger than the {self._limit} bytes that are taken here.")

    async def _counted(self) -> Message:
        if self._more:
            if self._reads_no_more:
                self._unread = _over()
                raise self._unread
            try:
                async with asyncio.timeout(BODY_PAUSE_S) as self._pause:
                    message = await self._receive()
            except TimeoutError:
                slow = problems.TooSlow(f"No more of the body has come for {BODY_PAUSE_S:g} s.")
                self._unread = _over() if self._reads_no_more else slow
                raise self._unread from None
            finally:
                self._pause = None
        else:
            message = await self._receive()  # until the client goes, however long that is
        if message["type"] == "http.request":
            self._got += len(message.get("body", b""))
            self._more = message.get("more_body", False)
            if self._limit is not None and self._got > self._limit:
                self._unread = self._too_large()
                raise self._unread
        else:
            self._more = False
        return message

    # -- the answer -----------------------------------------------------------------------------

    async def _answer_of_app(self, message: Message) -> None:
        if self._over and not self._started and self._unread is None and self._scope["method"] in origin.SAFE_METHODS:
            # Nothing is shown any more to who was shut out while it was looked up.
            self._unread = _over()
            if self._whole is not None:
                self._whole.reschedule(asyncio.get_running_loop().time())
        # Frameworks turn an error in reading the body into answers of their own; the true one follows.
        if self._started or self._unread is None:
            await self._answer(message)

    async def _answer(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            self._status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS:
                headers.setdefault(name, value)
            headers["X-Request-Id"] = self.id
            if self._scope["path"].startswith(API):
                headers.setdefault("Cache-Control", "no-store")
            if self._scope["path"].startswith(tus.PREFIX):
                for name, value in tus.of_every_answer(self._status):
                    headers.setdefault(name, value)
            if self._scope.get("headway.secure"):
                headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            if self._cookie is not None and "set-cookie" not in headers:
                headers.append("Set-Cookie", self._cookie)
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self._ended = True
        await self._send(message)

    async def _fail(self, error: HeadwayError) -> None:
        if self._started:
            if not self._ended:
                # Half an answer is out. Without its end the server cuts the line, so that nobody takes it for whole.
                log.warning("http.cut", path=self._scope["path"], slug=error.slug, reason=error.message)
            return
        self._scope["headway.problem"] = error.slug
        answer = problems.response(error, self.id)
        if isinstance(error, problems.TooSlow) or (self._over and self._more):
            answer.headers["Connection"] = "close"  # what might still come is the rest of this body
        if not isinstance(error, TooLarge):
            await answer(self._scope, self._receive, self._answer)
            return
        await self._answer({"type": "http.response.start", "status": answer.status_code, "headers": answer.raw_headers})
        await self._answer({"type": "http.response.body", "body": bytes(answer.body), "more_body": True})
        await self._drain()
        await self._answer({"type": "http.response.body", "body": b"", "more_body": False})

    async def _drain(self) -> None:
        dropped = 0
        try:
            async with asyncio.timeout(_LINGER_S):
                while self._more and dropped < _LINGER_BYTES:
                    message = await self._receive()
                    dropped += len(message.get("body", b""))
                    self._more = message["type"] == "http.request" and message.get("more_body", False)
        except TimeoutError:
            pass


def _over() -> NotSignedIn:
    return NotSignedIn("This session or token is not valid (any more): sign in again.")


def _cookie(lines: Iterable[str]) -> str | None:
    """The session's cookie; a browser sends the most specific first, so the first of a name counts."""
    for line in lines:
        for part in line.split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE:
                return value.strip('"')
    return None


def _set_cookie(secret: str, life_s: float, *, secure: bool) -> str:
    end = "; Secure" if secure else ""
    return f"{COOKIE}={secret}; HttpOnly; Max-Age={int(life_s)}; Path=/; SameSite=strict{end}"
