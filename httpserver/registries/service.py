"""Owns the credentials of registries, and asks registries with them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from headway.clock import Clock
from headway.errors import InvalidInput, NotFound, Problem, TooMany
from headway.logs import get_logger
from headway.store.database import Database
from headway.turns import Turns

from ..auth.vault import SecretsUnusable, Vault
from . import store
from .client import Login, RegistryClient
from .failure import FailureKind, RegistryFailure
from .hosts import RegistryHosts
from .manifests import ImageFacts
from .names import ImageName, registry_host
from .store import StoredLogin

log = get_logger(__name__)

_NOTHING_KNOWN = ImageFacts()

RESOLVE_S = 5.0
_CHECK_S = 5.0
_MOST_LOGINS = 50
_AT_ONCE = 24  # questions to registries, of all submits together
_MOST_AT_ONCE_HOST = 8
# So long a registry that did not answer is not asked again, so that the next submits don't wait for it too.
_REMEMBERED_S = 60.0
_MOST_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class ResolvedRegistryImage:
    """What a name means in its registry now."""

    digest: str
    facts: ImageFacts = _NOTHING_KNOWN


class Registries:
    """See the module. Call :meth:`load` before anything else; :meth:`close` ends what was made here."""

    def __init__(self, db: Database, clock: Clock, vault: Vault, hosts: RegistryHosts) -> None:
        self._db = db
        self._clock = clock
        self._vault = vault
        vault.used_by(store.has_any)
        self._hosts = hosts
        self._client = RegistryClient(hosts)
        self._failed: dict[str, tuple[float, RegistryFailure]] = {}
        self._slots = Turns(_AT_ONCE)

    @property
    def asks(self) -> bool:
        """Whether registries are asked which image a name means."""
        return self._hosts.asks

    async def load(self) -> None:
        """Opens the vault, says what is wrong with it, and writes anew what an older key wrote."""
        await self._hosts.tls()  # takes a moment that no submit should wait for
        await self._vault.ready(self._db)
        if self._vault.problem:
            log.error("registries.key_unusable", reason=self._vault.problem)
            return
        rows = await self._db.read(store.of)
        lost = 0
        for row in rows:
            try:
                if not self._vault.is_current(row.password):
                    plain = self._vault.decrypt(row.account, row.registry, row.password)
                    again = self._vault.encrypt(row.account, row.registry, plain)
                    await self._db.write(lambda conn, row=row, again=again: store.rewrite(conn, row, again))  # type: ignore[misc]
            except SecretsUnusable:
                lost += 1
        if lost:
            log.error(
                "registries.passwords_unreadable",
                reason=f"{lost} of {len(rows)} stored passwords of registries were stored with a key that is not in "
                f"{self._vault.path}: put that key back as a further line and start again, or have them stored again.",
            )

    def close(self) -> None:
        """Waits for nothing."""
        self._hosts.close()

    # -- credentials ----------------------------------------------------------------------------

    def drop_account(self, conn: Connection, account: str) -> None:
        """The account is removed, inside a transaction."""
        store.drop_account(conn, account)

    async def of(self, account: str) -> Sequence[StoredLogin]:
        """An account's, by registry."""
        return await self._db.read(lambda conn: store.of(conn, account))

    async def put(self, account: str, host: str, username: str, password: str) -> tuple[StoredLogin, bool]:
        """Stores credentials in place of those before; also whether the registry was asked and takes them.

        Raises:
            InvalidInput: it is no registry, or it does not take them; nothing is stored.
            TooMany: the account has many already.
            SecretsUnusable: nothing can be stored without a key.
        """
        registry = registry_host(host)
        encrypted = self._vault.encrypt(account, registry, password)
        checked = await self._check(registry, Login(username, password))
        row = StoredLogin(account, registry, username, encrypted, self._clock.now())
        if not await self._db.write(lambda conn: store.put(conn, row, _MOST_LOGINS)):
            raise TooMany(f"You have stored {_MOST_LOGINS} registries already; delete one first.")
        self._failed.pop(registry, None)
        log.info("registries.login_stored", account=account, registry=registry, checked=checked)
        return row, checked

    async def delete(self, account: str, host: str) -> None:
        """Forgets credentials.

        Raises:
            NotFound: there are none.
        """
        registry = registry_host(host)
        if not await self._db.write(lambda conn: store.remove(conn, account, registry)):
            raise NotFound(f"You have stored no password for {registry}.")
        log.info("registries.login_deleted", account=account, registry=registry)

    async def login(self, account: str, host: str) -> Login | None:
        """What the account gave for this registry.

        Raises:
            SecretsUnusable: it can't be read.
        """
        registry = registry_host(host)
        for row in await self.of(account):
            if row.registry == registry:
                return Login(row.username, self._vault.decrypt(account, registry, row.password))
        return None

    async def _check(self, registry: str, login: Login) -> bool:
        if not self._hosts.asks:
            return False
        try:
            async with asyncio.timeout(_CHECK_S):
                await self._client.check(registry, login)
        except TimeoutError:
            return False
        except RegistryFailure as failure:
            if failure.kind is FailureKind.WRONG_LOGIN:
                message = f"The registry {registry} does not take this user name with this password."
                raise InvalidInput(message, problems=[Problem("/password", message)]) from failure
            if failure.kind is FailureKind.NOT_HERE:
                raise InvalidInput(failure.message) from failure
            return False
        return True

    # -- which image a name means ---------------------------------------------------------------

    async def resolve(
        self, account: str, names: Iterable[ImageName], architectures: Sequence[str], *, within_s: float = RESOLVE_S
    ) -> Mapping[ImageName, ResolvedRegistryImage | RegistryFailure]:
        """Looks up all names at once: what each registry answers, or why it did not answer.

        Takes no longer than ``within_s``, whatever the registries do.
        """
        wanted = list(dict.fromkeys(names))
        found: dict[ImageName, ResolvedRegistryImage | RegistryFailure] = {}
        if not wanted:
            return found
        logins = {row.registry: row for row in await self.of(account)}
        host_slots = {name.registry: asyncio.Semaphore(_MOST_AT_ONCE_HOST) for name in wanted}

        async def one(name: ImageName) -> None:
            try:
                async with host_slots[name.registry], self._slots.of(account):
                    self._refuse_failed(name.registry)
                    await self._resolve(name, logins.get(name.registry), architectures, found)
            except RegistryFailure as failure:
                found[name] = failure
                if failure.of_the_host:
                    self._remember(name.registry, failure)

        tasks = [asyncio.create_task(one(name), name=f"resolve {name}") for name in wanted]
        try:
            await asyncio.wait(tasks, timeout=within_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        answered = {name.registry for name in found}
        for task, name in zip(tasks, wanted, strict=True):
            if name in found:
                continue
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("registries.resolve_failed", image=str(name), exc=error)
            slow = RegistryFailure(
                FailureKind.SLOW, f"The registry {name.registry} did not answer within {within_s:g} s."
            )
            found[name] = slow
            if name.registry not in answered:
                self._remember(name.registry, slow)
        return found

    async def _resolve(
        self,
        name: ImageName,
        row: StoredLogin | None,
        architectures: Sequence[str],
        found: dict[ImageName, ResolvedRegistryImage | RegistryFailure],
    ) -> None:
        login, unusable = None, ""
        if row is not None:
            try:
                login = Login(row.username, self._vault.decrypt(row.account, row.registry, row.password))
            except SecretsUnusable as error:
                unusable = error.message
        try:
            digest = await self._client.digest(name, login)
        except RegistryFailure as failure:
            if unusable and failure.kind is FailureKind.DENIED:
                raise RegistryFailure(FailureKind.STRANGE, unusable) from failure
            raise
        # Known from here on, should the time be over before the rest is.
        found[name] = ResolvedRegistryImage(digest)
        try:
            facts = await self._client.facts(replace(name, tag="", digest=digest), login, architectures)
        except RegistryFailure as failure:
            log.info("registries.facts_unknown", image=str(name), reason=failure.message)
            return
        found[name] = ResolvedRegistryImage(digest, facts)

    def _refuse_failed(self, registry: str) -> None:
        until, failure = self._failed.get(registry, (0.0, None))
        if failure is not None and self._clock.monotonic() < until:
            raise failure

    def _remember(self, registry: str, failure: RegistryFailure) -> None:
        now = self._clock.monotonic()
        if registry in self._failed and now < self._failed[registry][0]:
            return  # the same failure again must not make it last for ever
        if len(self._failed) >= _MOST_REMEMBERED:
            self._failed = {host: entry for host, entry in self._failed.items() if now < entry[0]}
            if len(self._failed) >= _MOST_REMEMBERED:
                self._failed.pop(next(iter(self._failed)))
        self._failed[registry] = (now + _REMEMBERED_S, failure)
        log.info("registries.not_asked_for_a_while", registry=registry, reason=failure.message)
