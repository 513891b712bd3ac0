"""Accounts. Changes go to the database first, then into the copy in memory.

Every request is checked against the copy in memory. Sessions and tokens are in ``tokens``.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from headway.clock import Clock
from headway.errors import Conflict, InvalidInput, NotAllowed, NotFound, NotSignedIn, Problem, TooMany
from headway.ids import RESERVED_ACCOUNTS
from headway.logs import get_logger
from headway.store.database import Database
from headway.units import counted

from ..audit import current as audit
from ..settings import PasswordsMode
from . import ids, known_addresses, password_rules, tokens
from .known_addresses import KnownAddresses
from .model import Account, CameFrom, SignedInSession, StoredToken
from .own_sessions import OwnSessions
from .passwords import Passwords, new_password
from .secret import hashed
from .sign_in_limits import FailureLimit, SignInLimits, place_of
from .tables import accounts as accounts_table
from .tables import members as members_table
from .tables import tokens as tokens_table
from .tokens import Kind, Tokens

log = get_logger(__name__)

FIRST_ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """Whom a token belongs to; ``renewed_until`` is set when its session was prolonged just now."""

    account: Account
    session: bool
    id: str  # of the session or token
    hash: str
    renewed_until: float | None = None


class Accounts:
    """The one owner of accounts. Call :meth:`load` before anything else."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        *,
        uid_from: int = 20_000,
        uid_to: int = 60_000,
        session_s: float = 7 * 86400,
        passwords: PasswordsMode = "on",
    ) -> None:
        self._db = db
        self._clock = clock
        self._uids = range(uid_from, uid_to)
        self._passwords = Passwords()
        self._mode = passwords
        self._by_operator: set[str] = set()  # whose password counts in this run, whatever the mode says
        self._limits = SignInLimits()
        # Apart from those of signing in: no stranger's guess keeps the owner of an account from a new password.
        self._own = FailureLimit(burst=8, every_s=20)
        self._known = KnownAddresses()
        self._accounts: dict[str, Account] = {}
        self._removed: dict[str, Account] = {}  # names and uids are never given again
        self._hashes: dict[str, str] = {}
        self._ending: set[str] = set()  # their homes are being taken away
        self._when_removed: list[Callable[[Connection, str], None]] = []
        # One change at a time: checks against memory stay true until the commit.
        self._changing = asyncio.Lock()
        self._tokens = Tokens(db, clock, self._changing, session_s=session_s)
        self.own_sessions = OwnSessions(self._tokens)
        self.requests = self._tokens.requests
        self.run = self._tokens.run

    def when_removed(self, work: Callable[[Connection, str], None]) -> None:
        """``work(conn, name)`` runs in the transaction that removes an account."""
        self._when_removed.append(work)

    async def load(self) -> None:
        """Reads all accounts and tokens, and drops tokens whose time is over."""
        now = self._clock.now()

        def work(conn: Connection) -> tuple[list[Any], list[Any]]:
            conn.execute(delete(tokens_table).where(tokens_table.c.expires_at < now))
            self._known.load(conn)
            return list(conn.execute(select(accounts_table))), list(conn.execute(select(tokens_table)))

        accounts, stored = await self._db.write(work)
        for row in accounts:
            fields = dict(row._mapping)
            password, removed_at = fields.pop("password_hash"), fields.pop("removed_at")
            if removed_at is not None:
                self._removed[row.name] = Account(**fields)
                continue
            self._hashes[row.name] = password
            self._accounts[row.name] = Account(**fields)
        self._tokens.load(stored)

    async def make_first_admin(self, file: Path) -> None:
        """Where there is no account yet: makes one, and writes its name and password as two lines to ``file``.

        The file comes first: a crash in between leaves a file that the next start replaces, never an account
        that nobody has the password of.
        """
        if self._accounts:
            return
        password = new_password()
        await asyncio.to_thread(write_private, file, f"{FIRST_ADMIN}\n{password}\n")
        with audit.of_service("account.first_admin", f"account {FIRST_ADMIN}", self._clock.now()):
            await self.create(FIRST_ADMIN, password, admin=True, may_use_high_priority=True, by="first start")
        self._by_operator.add(FIRST_ADMIN)
        log.info("account.first_admin", name=FIRST_ADMIN, file=str(file))

    # -- signing in -----------------------------------------------------------------------------

    async def sign_in(self, name: str, password: str, *, client: str, agent: str = "") -> SignedInSession:
        """Opens a session. ``agent``: what the client's program calls itself.

        Who has signed in from this address before is let in by the right password whatever was tried there.

        Raises:
            NotSignedIn: wrong name or password (the same message for both), the account is disabled, or its password
                does not count here.
            TooMany: too many wrong passwords lately.
        """
        # A name that is no account may be a password in the wrong field.
        audit.note(who=name if name in self._hashes else "", way="password")
        if self._mode == "off" and not self._by_operator:
            raise _passwords_off()
        place, now = place_of(client), self._clock.monotonic()
        wait_s = self._limits.wait_s(name, place, now)
        if wait_s > 0 and not self._known.has(name, place):
            raise _too_many(wait_s)
        # Counted before the check, which takes a while: a burst of guesses at once must not slip through.
        self._limits.failed(name, place, now)
        stored = self._hashes.get(name)
        # A name alone is made up quickly, and a turn for each would leave others hardly any.
        turn = f"{name} {place}" if self._known.has(name, place) else place
        if not await self._passwords.check(stored, password, turn=turn):
            log.warning("account.sign_in_failed", client=client, known=stored is not None)
            if wait_s > 0:
                raise _too_many(wait_s)
            raise NotSignedIn("The name or the password is wrong.")
        account = self._accounts.get(name)
        if account is None or not account.enabled:
            raise NotSignedIn("This account is disabled; ask an admin.")
        if not self._password_counts(account):
            raise _passwords_off()
        self._limits.succeeded(name, place)
        if stored is not None and self._passwords.outdated(stored):
            fresh = await self._passwords.hash(password)
            await self._store_password(name, fresh, instead_of=stored)
            stored = fresh
        return await self._open_session(
            account,
            lambda conn: self._known.note(conn, name, place, self._clock.now()),
            stored,
            CameFrom(client, agent, "password"),
        )

    async def open_session(self, name: str, came: CameFrom | None = None) -> SignedInSession:
        """Opens a session without a password: who it is was found out otherwise.

        Raises:
            NotFound: no such account.
            NotSignedIn: the account is disabled.
        """
        return await self._open_session(self._get(name), lambda conn: None, None, came or CameFrom(way="operator"))

    async def reset_by_operator(self, name: str, password: str) -> None:
        """Another password, as the machine's operator wants it, and the account is enabled. The password counts in this
        run, whatever the mode says. Raises as :meth:`update` does."""
        with audit.of_service("account.operator_reset", f"account {name}", self._clock.now()):
            await self.update(name, {"password": password, "enabled": True}, by="the machine's operator")
        self._by_operator.add(name)

    def _password_counts(self, account: Account) -> bool:
        return self._mode == "on" or (self._mode == "admins" and account.admin) or account.name in self._by_operator

    async def _open_session(
        self, account: Account, also: Callable[[Connection], None], stored: str | None, came: CameFrom
    ) -> SignedInSession:
        """``stored``: the hash that the password was checked against; None: there was no password."""
        now = self._clock.now()

        def work(conn: Connection) -> None:
            conn.execute(update(accounts_table).where(accounts_table.c.name == account.name).values(signed_in_at=now))
            also(conn)

        def still() -> None:
            # The check of a password waits for its turn: who was shut out meanwhile stays out.
            if not self._get(account.name).enabled:
                raise NotSignedIn("This account is disabled; ask an admin.")
            if stored is not None and self._hashes.get(account.name) != stored:
                raise NotSignedIn("The password was changed meanwhile: sign in again.")

        secret, expires_at = await self._tokens.open_session(account.name, work, still, _shortened(came))
        account = replace(self._get(account.name), signed_in_at=now)
        self._accounts[account.name] = account
        log.info("account.signed_in", name=account.name)
        return SignedInSession(account, secret, expires_at)

    async def sign_out(self, secret: str) -> None:
        """Ends the session of this token; a long-lived token stays."""
        token = self._tokens.find(secret)
        if token is not None and token.session:
            await self._tokens.end(token.account, "session", token.id)

    def who(self, secret: str) -> TokenOwner | None:
        """Whom the token belongs to; None when it opens nothing (unknown, over, account disabled)."""
        token = self._tokens.find(secret)
        account = self._accounts.get(token.account) if token is not None else None
        if token is None or account is None or not account.enabled:
            return None
        return TokenOwner(account, token.session, token.id, token.hash, self._tokens.used(token))

    # -- sessions and tokens --------------------------------------------------------------------

    async def create_token(
        self, account: Account, name: str, expires_in_s: float | None, *, asking: str
    ) -> tuple[StoredToken, str]:
        """A long-lived token and its value, which is shown only now. ``asking``: what the request came with.

        Raises:
            TooMany: the account has its full number already.
            InvalidInput: a token asks that ends before.
            NotSignedIn: what asks was ended meanwhile.
        """

        def still() -> None:
            if self.who(asking) is None:
                raise NotSignedIn("This session or token is not valid any more: sign in again.")

        made, secret = await self._tokens.create(account.name, name, expires_in_s, still, asking=asking)
        log.info("account.token_made", name=account.name, id=made.id)
        return made, secret

    async def tokens(self, account: Account) -> list[StoredToken]:
        """The account's long-lived tokens, oldest first."""
        return self._tokens.of(account.name, "token")

    async def delete_token(self, account: Account, id: str) -> None:
        """Ends one of the account's own tokens; one that isn't there is fine."""
        ended = await self._tokens.end(account.name, "token", id)
        log.info("account.ended", name=account.name, kind="token", id=id, ended=ended, by=account.name)

    def of_account(self, name: str, kind: Kind) -> list[StoredToken]:
        """Anybody's sessions or tokens, oldest first.

        Raises:
            NotFound: no such account.
        """
        return self._tokens.of(self._get(name).name, kind)

    async def end_of_account(self, name: str, kind: Kind, id: str | None, *, by: str) -> int:
        """Ends one of anybody's sessions or tokens, or all of them; how many.

        Raises:
            NotFound: no such account.
        """
        ended = await self._tokens.end(self._get(name).name, kind, id, shut_out=True)
        log.info("account.ended", name=name, kind=kind, id=id, ended=ended, by=by)
        return ended

    # -- accounts -------------------------------------------------------------------------------

    async def all(self) -> list[Account]:
        """All accounts, by name."""
        return sorted(self._accounts.values(), key=lambda account: account.name)

    async def all_and_removed(self) -> list[Account]:
        """Also those that were removed, since some of what they left is still kept."""
        return await self.all() + sorted(self._removed.values(), key=lambda account: account.name)

    def is_taken(self, name: str) -> bool:
        """Whether there is, or was, an account of that name, so that none can be made."""
        return name in self._accounts or name in self._removed or name in RESERVED_ACCOUNTS

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
        also: Callable[[Connection], object] = lambda conn: None,
    ) -> tuple[Account, str | None]:
        """Makes an account; answers the password too when it was made here. ``also`` joins the transaction.

        Raises:
            InvalidInput: a name that tasks or the image market use otherwise, an id of the machines, or a password that
                is tried first.
            Conflict: the name or the uid is taken, or was, or the range of uids is used up.
        """
        if name in RESERVED_ACCOUNTS:
            raise _name_refused(
                InvalidInput, f"An account can't be named `{name}`: the name means something else already."
            )
        ids.check(uid, gid, least=self._uids.start)
        if password is not None:
            password_rules.check(password, name, pointer="/password")
        made = None if password is not None else new_password()
        stored = await self._passwords.hash(password if password is not None else str(made))
        async with self._changing:
            self.check_admin(by)
            if name in self._accounts:
                raise _name_refused(Conflict, f"There is an account `{name}` already.")
            if name in self._removed:
                raise _name_refused(
                    Conflict,
                    f"There was an account `{name}`: its jobs and images still carry that name, so choose another one.",
                )
            others = [*self._accounts.values(), *self._removed.values()]
            uid = ids.free(self._uids, others) if uid is None else uid
            ids.refuse_taken(uid, gid, others)
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

            def work(conn: Connection) -> None:
                conn.execute(insert(accounts_table).values(**row))
                also(conn)

            await self._db.write(work)
            self._accounts[name] = account
            self._hashes[name] = stored
        log.info("account.made", name=name, uid=uid, admin=admin, by=by)
        return account, made

    async def update(self, name: str, changes: Mapping[str, Any], *, by: str, keep_tokens: bool = False) -> Account:
        """Applies ``changes`` (keys of schemas.UserPatch).

        A new password, or disabling, ends all sessions, and all tokens unless ``keep_tokens``. What is under way with
        them ends at once.

        Raises:
            NotFound: no such account.
            InvalidInput: a password that is tried first.
            NotAllowed: ``by`` is no admin any more.
            Conflict: it would leave no enabled admin, or it is to be enabled while it is being removed.
        """
        fields = dict(changes)
        self._get(name)
        password = fields.pop("password", None)
        if password is not None:
            password_rules.check(password, name, pointer="/password")
        stored = await self._passwords.hash(password) if password is not None else None
        async with self._changing:
            self.check_admin(by)
            before = self._get(name)
            if fields.get("enabled") and name in self._ending:
                raise Conflict(f"`{name}` is being removed now.")
            after = replace(before, **fields)
            if before.admin and before.enabled and not (after.admin and after.enabled):
                others = [a for a in self._accounts.values() if a.admin and a.enabled and a.name != name]
                if not others:
                    sentence = f"`{name}` is the last admin; make another one first."
                    pointer = "/enabled" if after.admin else "/admin"
                    raise Conflict(sentence, problems=[Problem(pointer, sentence)])
            row = dict(fields) | ({"password_hash": stored} if stored is not None else {})
            held = self._tokens.hashes(name, "session", "token")
            ends = stored is not None or not after.enabled
            ended = (self._tokens.hashes(name, "session") if keep_tokens else held) if ends else []

            def work(conn: Connection) -> None:
                if row:
                    conn.execute(update(accounts_table).where(accounts_table.c.name == name).values(**row))
                tokens.drop(conn, ended)

            await self._db.write(work)
            self._accounts[name] = after
            if stored is not None:
                self._hashes[name] = stored
            self._tokens.forget(ended, shut_out=True)
            if not after.enabled or (before.admin and not after.admin):
                # What was begun with more rights ends; tokens that were kept open nothing, or less, from now on.
                self.requests.end([hash for hash in held if hash not in ended], shut_out=True)
        rights = {key: getattr(after, key) for key in ("admin", "enabled") if key in changes}
        log.info("account.changed", name=name, changed=sorted(changes), **rights, by=by)
        return after

    async def reset_password(self, name: str, *, by: str, keep_tokens: bool = False) -> str:
        """A new password that is made here, and kept nowhere else; otherwise as :meth:`update` with one."""
        made = new_password()
        await self.update(name, {"password": made}, by=by, keep_tokens=keep_tokens)
        return made

    def check_admin(self, by: str) -> None:
        """``by`` may have lost the right while its change waited for its turn. Names of no account pass.

        Raises:
            NotAllowed: it is no admin any more.
        """
        asking = self._accounts.get(by) or self._removed.get(by)
        if asking is not None and not (asking.admin and asking.enabled):
            raise NotAllowed("Only an admin may do that.")

    def removable(self, name: str) -> Account:
        """The account, if nothing of this room stands against its removal.

        Raises:
            NotFound: no such account.
            Conflict: it is not disabled.
        """
        account = self._get(name)
        if account.enabled:
            raise Conflict(f"`{name}` is enabled: disable it first, which also says what becomes of its jobs.")
        return account

    @contextlib.asynccontextmanager
    async def ending(self, name: str, *, by: str) -> AsyncIterator[Account]:
        """The account, which nobody enables inside: its files are about to go.

        Raises:
            NotAllowed: ``by`` is no admin any more.
            NotFound: no such account.
            Conflict: it is not disabled.
        """
        async with self._changing:
            self.check_admin(by)
            account = self.removable(name)
            self._ending.add(name)
        try:
            yield account
        finally:
            self._ending.discard(name)

    async def remove(self, name: str, *, by: str) -> None:
        """Ends an account for good, with its sessions, tokens and memberships. Its name and uid are never given again.

        Raises:
            NotFound: no such account.
            Conflict: it is not disabled.
        """
        async with self._changing:
            self.check_admin(by)
            account = self.removable(name)
            ended = self._tokens.hashes(name, "session", "token")

            def work(conn: Connection) -> None:
                tokens.drop(conn, ended)
                conn.execute(delete(members_table).where(members_table.c.account == name))
                known_addresses.drop(conn, name)
                for also in self._when_removed:
                    also(conn, name)
                row = update(accounts_table).where(accounts_table.c.name == name)
                conn.execute(row.values(removed_at=self._clock.now(), password_hash=""))

            await self._db.write(work)
            del self._accounts[name], self._hashes[name]
            self._removed[name] = account
            self._known.forget(name)
            self._tokens.forget(ended, shut_out=True)
        log.info("account.removed", name=name, uid=account.uid, by=by)

    async def change_password(self, account: Account, current: str, new: str, *, keep_token: str) -> None:
        """The account's own wish; its other sessions end.

        Raises:
            InvalidInput: the current password is wrong, or the new one is the same, or is tried first.
            NotSignedIn: the account or its password was changed meanwhile.
            TooMany: too many wrong passwords lately.
        """
        password_rules.check(new, account.name, pointer="/new")
        wait_s = self._own.wait_s(account.name, self._clock.monotonic())
        if wait_s > 0:
            raise _too_many(wait_s)
        self._own.failed(account.name, self._clock.monotonic())
        stored = self._hashes.get(account.name)
        if not await self._passwords.check(stored, current, turn=account.name):
            sentence = "The current password is wrong."
            raise InvalidInput(sentence, problems=[Problem("/current", sentence)])
        self._own.forget(account.name)
        if new == current:
            sentence = "The new password is the same as before: take another one."
            raise InvalidInput(sentence, problems=[Problem("/new", sentence)])
        if not await self._store_password(account.name, await self._passwords.hash(new), instead_of=stored):
            raise NotSignedIn("Your password or account was changed meanwhile: sign in again.")
        await self._tokens.end(account.name, "session", but=hashed(keep_token))
        log.info("account.password_changed", name=account.name)

    # -- inside ---------------------------------------------------------------------------------

    def _get(self, name: str) -> Account:
        account = self._accounts.get(name)
        if account is None:
            raise NotFound(f"There is no account `{name}`.")
        return account

    async def _store_password(self, name: str, stored: str, *, instead_of: str | None) -> bool:
        """False: another one was set meanwhile, or the account is not enabled any more."""
        async with self._changing:
            account = self._accounts.get(name)
            if account is None or not account.enabled or self._hashes.get(name) != instead_of:
                return False
            statement = update(accounts_table).where(accounts_table.c.name == name).values(password_hash=stored)
            await self._db.write(lambda conn: conn.execute(statement))
            self._hashes[name] = stored
            return True


def _name_refused(kind: type[InvalidInput | Conflict], sentence: str) -> InvalidInput | Conflict:
    return kind(sentence, problems=[Problem("/name", sentence)])


def _passwords_off() -> NotSignedIn:
    return NotSignedIn("Passwords don't open sessions for this account here: sign in by the other button on the page.")


def _shortened(came: CameFrom) -> CameFrom:
    """What a client says of itself is kept in part, and without signs that move what stands around it."""
    return replace(came, agent="".join(sign for sign in came.agent[:200] if sign.isprintable()))


def _too_many(wait_s: float) -> TooMany:
    return TooMany(
        f"Too many wrong passwords; try again in {counted(math.ceil(wait_s), 'second')}.",
        extra={"retry_after_s": round(wait_s, 1)},
    )


def write_private(path: Path, text: str) -> None:
    """Writes the file, readable by its owner alone, in one step."""
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
