"""Accounts, sessions and tokens. Changes go to the database first, then into the copy in memory.

Every request is checked against the copy in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from headway.clock import Clock
from headway.errors import Conflict, InvalidInput, NotFound, NotSignedIn, Problem, TooMany
from headway.logs import get_logger
from headway.store.database import Database

from .model import Account, SignedInSession, StoredToken
from .passwords import Passwords, new_password
from .secret import SESSION, TOKEN, hashed, new_secret, plausible
from .sign_in_limits import SignInLimits
from .tables import accounts as accounts_table
from .tables import tokens as tokens_table

log = get_logger(__name__)

FIRST_ADMIN = "admin"
# Tasks and the image market use these names for something else than accounts.
RESERVED_NAMES = frozenset({"root", "base", "nobody", "headway"})
_SESSIONS_PER_ACCOUNT = 100
_TOKENS_PER_ACCOUNT = 100
_USED_STEP_S = 60.0  # how exact used_at is; each use must not cost a write
_RENEW_PART = 8  # a session is renewed once an eighth of its life is over


@dataclass(frozen=True, slots=True)
class _Token:
    hash: str
    id: str
    account: str
    session: bool
    name: str
    created_at: float
    expires_at: float | None
    used_at: float | None


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """Whom a token belongs to; ``renewed_until`` is set when its session was prolonged just now."""

    account: Account
    session: bool
    renewed_until: float | None = None


class Accounts:
    """The one owner of accounts. Call :meth:`load` before anything else."""

    def __init__(
        self, db: Database, clock: Clock, *, uid_from: int = 20_000, uid_to: int = 60_000, session_s: float = 7 * 86400
    ) -> None:
        self._db = db
        self._clock = clock
        self._uids = range(uid_from, uid_to)
        self._session_s = session_s
        self._passwords = Passwords()
        self._limits = SignInLimits()
        self._accounts: dict[str, Account] = {}
        self._hashes: dict[str, str] = {}
        self._tokens: dict[str, _Token] = {}
        # One change at a time: checks against memory stay true until the commit.
        self._changing = asyncio.Lock()

    async def load(self) -> None:
        """Reads all accounts and tokens, and drops tokens whose time is over."""
        now = self._clock.now()

        def work(conn: Connection) -> tuple[list[Any], list[Any]]:
            conn.execute(delete(tokens_table).where(tokens_table.c.expires_at < now))
            return list(conn.execute(select(accounts_table))), list(conn.execute(select(tokens_table)))

        accounts, tokens = await self._db.write(work)
        for row in accounts:
            fields = dict(row._mapping)
            self._hashes[row.name] = fields.pop("password_hash")
            self._accounts[row.name] = Account(**fields)
        self._tokens = {row.hash: _Token(**row._mapping) for row in tokens}

    async def make_first_admin(self, file: Path) -> None:
        """Where there is no account yet: makes one, and writes its name and password as two lines to ``file``.

        The file comes first: a crash in between leaves a file that the next start replaces, never an account
        that nobody has the password of.
        """
        if self._accounts:
            return
        password = new_password()
        await asyncio.to_thread(_write_private, file, f"{FIRST_ADMIN}\n{password}\n")
        await self.create(FIRST_ADMIN, password, admin=True, may_use_high_priority=True, by="first start")
        log.info("account.first_admin", name=FIRST_ADMIN, file=str(file))

    # -- signing in -----------------------------------------------------------------------------

    async def sign_in(self, name: str, password: str, *, client: str) -> SignedInSession:
        """Opens a session.

        Raises:
            NotSignedIn: wrong name or password (the same message for both), or the account is disabled.
            TooMany: too many wrong passwords lately.
        """
        wait_s = self._limits.wait_s(name, client, self._clock.monotonic())
        if wait_s > 0:
            raise TooMany(
                f"Too many wrong passwords; try again in {wait_s:.0f} seconds.",
                extra={"retry_after_s": round(wait_s, 1)},
            )
        # Counted before the check, which takes a while: a burst of guesses at once must not slip through.
        self._limits.failed(name, client, self._clock.monotonic())
        stored = self._hashes.get(name)
        if not await self._passwords.check(stored, password):
            log.warning("account.sign_in_failed", client=client, known=stored is not None)
            raise NotSignedIn("The name or the password is wrong.")
        account = self._accounts[name]
        if not account.enabled:
            raise NotSignedIn("This account is disabled; ask an admin.")
        self._limits.succeeded(name, client)
        if stored is not None and self._passwords.outdated(stored):
            await self._store_password(name, await self._passwords.hash(password))
        return await self._open_session(account)

    async def open_session(self, name: str) -> SignedInSession:
        """Opens a session without a password, for the machine's own operator.

        Raises:
            NotFound: no such account.
        """
        return await self._open_session(self._get(name))

    async def _open_session(self, account: Account) -> SignedInSession:
        now = self._clock.now()
        secret = new_secret(SESSION)
        token = self._new_token(secret, account.name, "", now, now + self._session_s, session=True)
        surplus = self._surplus_sessions(account.name)

        def work(conn: Connection) -> None:
            if surplus:
                conn.execute(delete(tokens_table).where(tokens_table.c.hash.in_(surplus)))
            conn.execute(insert(tokens_table).values(**_row(token)))
            conn.execute(update(accounts_table).where(accounts_table.c.name == account.name).values(signed_in_at=now))

        async with self._changing:
            await self._db.write(work)
            for gone in surplus:
                self._tokens.pop(gone, None)
            self._tokens[token.hash] = token
            account = replace(self._accounts[account.name], signed_in_at=now)
            self._accounts[account.name] = account
        log.info("account.signed_in", name=account.name)
        return SignedInSession(account, secret, now + self._session_s)

    async def sign_out(self, secret: str) -> None:
        """Ends the session of this token; a long-lived token stays."""
        token = self._tokens.get(hashed(secret))
        if token is not None and token.session:
            await self._drop([token.hash])

    def who(self, secret: str) -> TokenOwner | None:
        """Whom the token belongs to; None when it opens nothing (unknown, over, account disabled)."""
        if not plausible(secret):
            return None
        token = self._tokens.get(hashed(secret))
        if token is None:
            return None
        now = self._clock.now()
        account = self._accounts.get(token.account)
        if account is None or not account.enabled or (token.expires_at is not None and token.expires_at <= now):
            return None
        renewed = self._used(token, now)
        return TokenOwner(account, token.session, renewed)

    def _used(self, token: _Token, now: float) -> float | None:
        renew = token.session and token.expires_at is not None
        renew = renew and (token.expires_at or 0) - now < self._session_s * (1 - 1 / _RENEW_PART)
        if not renew and token.used_at is not None and now - token.used_at < _USED_STEP_S:
            return None
        expires_at = now + self._session_s if renew else token.expires_at
        self._tokens[token.hash] = replace(token, used_at=now, expires_at=expires_at)
        statement = update(tokens_table).where(tokens_table.c.hash == token.hash)
        values = {"used_at": now, "expires_at": expires_at}
        self._db.defer(lambda conn: conn.execute(statement.values(**values)))
        return expires_at if renew else None

    # -- tokens ---------------------------------------------------------------------------------

    async def create_token(self, account: Account, name: str, expires_in_s: float | None) -> tuple[StoredToken, str]:
        """A long-lived token and its value, which is shown only now.

        Raises:
            TooMany: the account has its full number already.
        """
        if len(await self.tokens(account)) >= _TOKENS_PER_ACCOUNT:
            raise TooMany(f"There are {_TOKENS_PER_ACCOUNT} tokens already; delete one first.")
        now = self._clock.now()
        secret = new_secret(TOKEN)
        expires_at = None if expires_in_s is None else now + expires_in_s
        token = self._new_token(secret, account.name, name, now, expires_at, session=False)
        async with self._changing:
            await self._db.write(lambda conn: conn.execute(insert(tokens_table).values(**_row(token))))
            self._tokens[token.hash] = token
        log.info("account.token_made", name=account.name, id=token.id)
        return _told(token), secret

    async def tokens(self, account: Account) -> list[StoredToken]:
        """The account's long-lived tokens, oldest first."""
        now = self._clock.now()
        own = [t for t in self._tokens.values() if t.account == account.name and not t.session]
        live = [t for t in own if t.expires_at is None or t.expires_at > now]
        return [_told(token) for token in sorted(live, key=lambda t: (t.created_at, t.id))]

    async def delete_token(self, account: Account, id: str) -> None:
        """Ends one of the account's own tokens; one that isn't there is fine."""
        found = [t.hash for t in self._tokens.values() if t.id == id and t.account == account.name and not t.session]
        await self._drop(found)

    # -- accounts -------------------------------------------------------------------------------

    async def all(self) -> list[Account]:
        """All accounts, by name."""
        return sorted(self._accounts.values(), key=lambda account: account.name)

    def get(self, name: str) -> Account | None:
        """The account of that name, disabled ones too."""
        return self._accounts.get(name)

    async def create(
        self,
        name: str,
        password: str | None,
        *,
        admin: bool = False,
        uid: int | None = None,
        gid: int | None = None,
        may_use_image_user: bool = False,
        may_use_high_priority: bool = False,
        quota_bytes: int | None = None,
        by: str,
    ) -> tuple[Account, str | None]:
        """Makes an account; answers the password too when it was made here.

        Raises:
            InvalidInput: a name that tasks or the image market use otherwise.
            Conflict: the name or the uid is taken, or the range of uids is used up.
        """
        if name in RESERVED_NAMES:
            raise InvalidInput(f"An account can't be named `{name}`: the name means something else already.")
        made = None if password is not None else new_password()
        stored = await self._passwords.hash(password if password is not None else str(made))
        async with self._changing:
            if name in self._accounts:
                raise Conflict(f"There is an account `{name}` already.")
            uid = self._free_uid() if uid is None else uid
            if any(other.uid == uid for other in self._accounts.values()):
                raise Conflict(f"The uid {uid} belongs to another account.")
            account = Account(
                name=name,
                uid=uid,
                gid=uid if gid is None else gid,
                admin=admin,
                enabled=True,
                may_use_image_user=may_use_image_user,
                may_use_high_priority=may_use_high_priority,
                created_at=self._clock.now(),
                quota_bytes=quota_bytes,
            )
            row = {**{f: getattr(account, f) for f in Account.__slots__}, "password_hash": stored}
            await self._db.write(lambda conn: conn.execute(insert(accounts_table).values(**row)))
            self._accounts[name] = account
            self._hashes[name] = stored
        log.info("account.made", name=name, uid=uid, admin=admin, by=by)
        return account, made

    async def update(self, name: str, changes: Mapping[str, Any], *, by: str) -> Account:
        """Applies ``changes`` (keys of schemas.UserPatch).

        Raises:
            NotFound: no such account.
            Conflict: it would leave no enabled admin.
        """
        fields = dict(changes)
        password = fields.pop("password", None)
        stored = await self._passwords.hash(password) if password is not None else None
        async with self._changing:
            before = self._get(name)
            after = replace(before, **fields)
            if before.admin and before.enabled and not (after.admin and after.enabled):
                others = [a for a in self._accounts.values() if a.admin and a.enabled and a.name != name]
                if not others:
                    raise Conflict(f"`{name}` is the last admin; make another one first.")
            row = dict(fields) | ({"password_hash": stored} if stored is not None else {})
            sessions = [t.hash for t in self._tokens.values() if t.account == name and t.session]
            ended = sessions if stored is not None or not after.enabled else []

            def work(conn: Connection) -> None:
                if row:
                    conn.execute(update(accounts_table).where(accounts_table.c.name == name).values(**row))
                if ended:
                    conn.execute(delete(tokens_table).where(tokens_table.c.hash.in_(ended)))

            await self._db.write(work)
            self._accounts[name] = after
            if stored is not None:
                self._hashes[name] = stored
            for gone in ended:
                self._tokens.pop(gone, None)
        log.info("account.changed", name=name, changed=sorted(changes), by=by)
        return after

    async def change_password(self, account: Account, current: str, new: str, *, keep_token: str) -> None:
        """The account's own wish; its other sessions end.

        Raises:
            InvalidInput: the current password is wrong.
            TooMany: too many wrong passwords lately.
        """
        client = "own password"
        wait_s = self._limits.wait_s(account.name, client, self._clock.monotonic())
        if wait_s > 0:
            raise TooMany("Too many wrong passwords; try again later.", extra={"retry_after_s": round(wait_s, 1)})
        self._limits.failed(account.name, client, self._clock.monotonic())
        if not await self._passwords.check(self._hashes.get(account.name), current):
            raise InvalidInput(
                "The current password is wrong.", problems=[Problem("/current", "This is not the current password.")]
            )
        self._limits.succeeded(account.name, client)
        await self._store_password(account.name, await self._passwords.hash(new))
        kept = hashed(keep_token)
        own = [t.hash for t in self._tokens.values() if t.account == account.name and t.session]
        await self._drop([hash for hash in own if hash != kept])
        log.info("account.password_changed", name=account.name)

    # -- inside ---------------------------------------------------------------------------------

    def _get(self, name: str) -> Account:
        account = self._accounts.get(name)
        if account is None:
            raise NotFound(f"There is no account `{name}`.")
        return account

    def _free_uid(self) -> int:
        # Never one that was used before, since files of that owner may still lie around: no gap is filled.
        taken = [account.uid for account in self._accounts.values() if account.uid in self._uids]
        uid = max(taken) + 1 if taken else self._uids.start
        if uid not in self._uids:
            raise Conflict(f"All uids from {self._uids.start} to {self._uids.stop - 1} are used; name one yourself.")
        return uid

    def _new_token(
        self, secret: str, account: str, name: str, now: float, expires_at: float | None, *, session: bool
    ) -> _Token:
        return _Token(hashed(secret), secrets.token_hex(8), account, session, name, now, expires_at, None)

    def _surplus_sessions(self, account: str) -> list[str]:
        own = sorted((t for t in self._tokens.values() if t.account == account and t.session), key=_last_used)
        now = self._clock.now()
        over = [t.hash for t in own if t.expires_at is not None and t.expires_at <= now]
        live = [t.hash for t in own if t.hash not in over]
        return over + live[: max(0, len(live) - _SESSIONS_PER_ACCOUNT + 1)]

    async def _store_password(self, name: str, stored: str) -> None:
        async with self._changing:
            statement = update(accounts_table).where(accounts_table.c.name == name).values(password_hash=stored)
            await self._db.write(lambda conn: conn.execute(statement))
            self._hashes[name] = stored

    async def _drop(self, hashes: list[str]) -> None:
        if not hashes:
            return
        async with self._changing:
            await self._db.write(lambda conn: conn.execute(delete(tokens_table).where(tokens_table.c.hash.in_(hashes))))
            for hash in hashes:
                self._tokens.pop(hash, None)


def _last_used(token: _Token) -> float:
    return token.used_at or token.created_at


def _row(token: _Token) -> dict[str, Any]:
    return {name: getattr(token, name) for name in _Token.__slots__}


def _told(token: _Token) -> StoredToken:
    return StoredToken(token.id, token.name, token.created_at, token.expires_at, token.used_at)


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
