"""Sessions and long-lived tokens. Changes go to the database first, then into the copy in memory.

Every request is checked against the copy in memory.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Connection, delete, insert, update

from headway.clock import Clock
from headway.errors import InvalidInput, Problem, TooMany
from headway.store.database import Database
from headway.units import round_duration

from ..audit.current import note
from .live_requests import LiveRequests
from .model import CameFrom, StoredToken
from .secret import SESSION, TOKEN, hashed, new_secret, plausible
from .tables import tokens as table

_SESSIONS_PER_ACCOUNT = 100
_TOKENS_PER_ACCOUNT = 100
_USED_STEP_S = 60.0  # how exact used_at is; each use must not cost a write
_RENEW_PART = 8  # a session is renewed once an eighth of its life is over
_LOOK_S = 15.0

Kind = Literal["session", "token"]


@dataclass(frozen=True, slots=True)
class KnownToken:
    """One session or long-lived token, as it is kept."""

    hash: str
    id: str
    account: str
    session: bool
    name: str
    created_at: float
    expires_at: float | None
    used_at: float | None
    address: str = ""
    agent: str = ""
    way: str = ""

    def live(self, now: float) -> bool:
        return self.expires_at is None or self.expires_at > now


class Tokens:
    """The one owner of sessions and tokens."""

    def __init__(self, db: Database, clock: Clock, changing: asyncio.Lock, *, session_s: float) -> None:
        self._db = db
        self._clock = clock
        self._changing = changing
        self._session_s = session_s
        self._tokens: dict[str, KnownToken] = {}
        self.requests = LiveRequests()

    def load(self, rows: Iterable[Any]) -> None:
        """Takes what the database holds."""
        self._tokens = {row.hash: KnownToken(**row._mapping) for row in rows}

    async def run(self) -> None:
        """Ends requests whose session or token is over, until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_S)
            now = self._clock.now()
            known = ((hash, self._tokens.get(hash)) for hash in self.requests.hashes())
            self.requests.end([hash for hash, token in known if token is None or not token.live(now)], shut_out=False)

    # -- making ---------------------------------------------------------------------------------

    async def open_session(
        self, account: str, also: Callable[[Connection], object], still: Callable[[], None], came: CameFrom
    ) -> tuple[str, float]:
        """A new session's secret and end. ``also`` joins the transaction. The oldest one too many ends.

        ``still`` raises if it may not be opened any more. No change comes between that look and the session.
        """
        now = self._clock.now()
        secret, expires_at = new_secret(SESSION), now + self._session_s
        id = secrets.token_hex(8)
        token = KnownToken(
            hashed(secret), id, account, True, "", now, expires_at, None, came.address, came.agent, came.way
        )
        note(f"session {id}")
        async with self._changing:
            still()
            surplus = self._surplus_sessions(account)

            def work(conn: Connection) -> None:
                drop(conn, surplus)
                conn.execute(insert(table).values(**_row(token)))
                also(conn)

            await self._db.write(work)
            self.forget(surplus, shut_out=False)
            self._tokens[token.hash] = token
        return secret, expires_at

    async def create(
        self, account: str, name: str, expires_in_s: float | None, still: Callable[[], None], *, asking: str
    ) -> tuple[StoredToken, str]:
        """A long-lived token and its value, which is shown only now. ``still`` as for a session; ``asking``: the value
        that the request came with.

        Raises:
            TooMany: the account has its full number already.
            InvalidInput: a token asks that ends before.
        """
        now = self._clock.now()
        secret = new_secret(TOKEN)
        expires_at = None if expires_in_s is None else now + expires_in_s
        token = KnownToken(hashed(secret), secrets.token_hex(8), account, False, name, now, expires_at, None)
        note(f"token {token.id}", name=name)
        async with self._changing:
            still()
            self._check_end(asking, expires_at)
            if len(self.of(account, "token")) >= _TOKENS_PER_ACCOUNT:
                raise TooMany(f"There are {_TOKENS_PER_ACCOUNT} tokens already; delete one first.")
            await self._db.write(lambda conn: conn.execute(insert(table).values(**_row(token))))
            self._tokens[token.hash] = token
        return _told(token), secret

    def _check_end(self, asking: str, expires_at: float | None) -> None:
        """Whoever gave a program a token for a week would not end what it made for ever."""
        by = self.find(asking)
        if by is None or by.session or by.expires_at is None:
            return
        if expires_at is None or expires_at > by.expires_at:
            left = round_duration(by.expires_at - self._clock.now())
            sentence = (
                f"The token that asks ends in {left}, and can't make one that lasts longer: "
                "ask for an earlier end, or sign in with the password."
            )
            raise InvalidInput(sentence, problems=[Problem("/expires_in_s", sentence)])

    # -- looking --------------------------------------------------------------------------------

    def find(self, secret: str) -> KnownToken | None:
        """The live session or token of this value."""
        if not plausible(secret):
            return None
        token = self._tokens.get(hashed(secret))
        return token if token is not None and token.live(self._clock.now()) else None

    def used(self, token: KnownToken) -> float | None:
        """Notes a use, and prolongs a session; until when, if it was prolonged just now."""
        now = self._clock.now()
        renew = token.session and token.expires_at is not None
        renew = renew and (token.expires_at or 0) - now < self._session_s * (1 - 1 / _RENEW_PART)
        if not renew and token.used_at is not None and now - token.used_at < _USED_STEP_S:
            return None
        expires_at = now + self._session_s if renew else token.expires_at
        self._tokens[token.hash] = replace(token, used_at=now, expires_at=expires_at)
        statement = update(table).where(table.c.hash == token.hash)
        values = {"used_at": now, "expires_at": expires_at}
        self._db.defer(lambda conn: conn.execute(statement.values(**values)))
        return expires_at if renew else None

    def of(self, account: str, kind: Kind) -> list[StoredToken]:
        """The account's live sessions or tokens, oldest first."""
        now = self._clock.now()
        own = [t for t in self._tokens.values() if t.account == account and t.session == (kind == "session")]
        return [_told(token) for token in sorted(own, key=lambda t: (t.created_at, t.id)) if token.live(now)]

    def hashes(self, account: str, *kinds: Kind) -> list[str]:
        """Of the account's sessions, tokens or both."""
        wanted = {kind == "session" for kind in kinds}
        return [t.hash for t in self._tokens.values() if t.account == account and t.session in wanted]

    # -- ending ---------------------------------------------------------------------------------

    async def end(
        self, account: str, kind: Kind, id: str | None = None, *, but: str = "", shut_out: bool = False
    ) -> int:
        """Ends one of the account's sessions or tokens, or all of them but that of the hash ``but``; how many.

        ``shut_out``: somebody else wants it, so uploads under way end, too.
        """
        async with self._changing:
            # Only now: one that was being made while this waited ends with the others.
            own = [t for t in self._tokens.values() if t.account == account and t.session == (kind == "session")]
            hashes = [t.hash for t in own if id in (None, t.id) and t.hash != but]
            if hashes:
                await self._db.write(lambda conn: drop(conn, hashes))
                self.forget(hashes, shut_out=shut_out)
        return len(hashes)

    def forget(self, hashes: Collection[str], *, shut_out: bool) -> None:
        """These are gone from the database: requests that came with them end too."""
        for hash in hashes:
            self._tokens.pop(hash, None)
        self.requests.end(hashes, shut_out=shut_out)

    def _surplus_sessions(self, account: str) -> list[str]:
        own = sorted((t for t in self._tokens.values() if t.account == account and t.session), key=_last_used)
        now = self._clock.now()
        over = [t.hash for t in own if not t.live(now)]
        live = [t.hash for t in own if t.live(now)]
        return over + live[: max(0, len(live) - _SESSIONS_PER_ACCOUNT + 1)]


def drop(conn: Connection, hashes: Collection[str]) -> None:
    """Deletes sessions and tokens, inside a transaction."""
    if hashes:
        conn.execute(delete(table).where(table.c.hash.in_(list(hashes))))


def _last_used(token: KnownToken) -> float:
    return token.used_at or token.created_at


def _row(token: KnownToken) -> dict[str, Any]:
    return {name: getattr(token, name) for name in KnownToken.__slots__}


def _told(token: KnownToken) -> StoredToken:
    came = CameFrom(token.address, token.agent, token.way)
    return StoredToken(token.id, token.name, token.created_at, token.expires_at, token.used_at, came)
