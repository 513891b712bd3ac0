"""Owns the secrets of accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection

from headway.clock import Clock
from headway.errors import HeadwayError, InvalidInput, NotFound, TooMany
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.store.database import Database

from ..auth.vault import SecretsUnusable, Vault
from . import store
from .attempts import StartingAttempts
from .store import SecretFacts

log = get_logger(__name__)

MOST_SECRETS = 100  # of an account
MOST_BYTES = 64 * 1024  # of a value
_MOST_AT_ONCE = 20  # more may not fit into one message


class Secrets:
    """See the module. A value goes in here, and out to a Worker that starts a task of the account; nowhere else."""

    def __init__(self, db: Database, clock: Clock, vault: Vault, attempts: StartingAttempts) -> None:
        self._db = db
        self._clock = clock
        self._vault = vault
        self._attempts = attempts
        vault.used_by(store.has_any)

    async def run(self) -> None:
        """Encrypts anew what an older key wrote, then has nothing to do until it is cancelled."""
        try:
            await self.rewrite()
        except HeadwayError as error:
            log.error("secrets.not_rewritten", reason=error.message)
        await asyncio.Event().wait()

    async def rewrite(self) -> None:
        """Encrypts anew what an older key wrote.

        Raises:
            HeadwayError: the database failed.
        """
        await self._vault.ready(self._db)
        if self._vault.problem:
            return
        lost = 0
        owners = await self._db.read(store.owners)
        for account, name in owners:
            old = (await self._db.read(lambda conn, a=account, n=name: store.sealed(conn, a, (n,)))).get(name)  # type: ignore[misc]
            if old is None or await asyncio.to_thread(self._vault.is_current, old):
                continue
            try:
                new = self._vault.seal(account, name, self._vault.unseal(account, name, old))
            except SecretsUnusable:
                lost += 1
                continue
            await self._db.write(
                lambda conn, a=account, n=name, o=old, s=new: store.rewrite(conn, a, n, o, s)  # type: ignore[misc]
            )
        if lost:
            log.error(
                "secrets.unreadable",
                reason=f"{lost} of {len(owners)} secrets were stored with a key that is not in {self._vault.path}: put "
                "that key back as a further line and start again, or have them stored again.",
            )

    # -- one's own ------------------------------------------------------------------------------

    async def of(self, account: str) -> Sequence[SecretFacts]:
        """An account's, by name, without their values."""
        return await self._db.read(lambda conn: store.of(conn, account))

    async def put(self, account: str, name: str, value: bytes) -> SecretFacts:
        """Stores a value in place of the one before. Name and size are checked by the caller.

        Raises:
            TooMany: the account has many already.
            SecretsUnusable: nothing can be stored without a key.
        """
        sealed = await asyncio.to_thread(self._vault.seal, account, name, value)
        facts = SecretFacts(name, len(value), b"\0" in value, self._clock.now())
        if not await self._db.write(lambda conn: store.put(conn, account, facts, sealed, MOST_SECRETS)):
            raise TooMany(f"You have stored {MOST_SECRETS} secrets already; remove one first.")
        log.info("secrets.stored", account=account, secret=name)
        return facts

    async def delete(self, account: str, name: str) -> None:
        """Forgets a secret.

        Raises:
            NotFound: there is none.
        """
        if not await self._db.write(lambda conn: store.remove(conn, account, name)):
            raise NotFound(f"You have no secret `{name[:128]}`.")
        log.info("secrets.removed", account=account, secret=name)

    def drop_account(self, conn: Connection, account: str) -> None:
        """The account is removed, inside a transaction."""
        store.drop_account(conn, account)

    # -- of a task --------------------------------------------------------------------------------

    async def of_attempt(
        self, attempt: AttemptId, node_id: str, names: Collection[str]
    ) -> tuple[Mapping[str, bytes], Sequence[str]]:
        """The values for an attempt that is about to start on this node, and the names that its owner has none of.

        Raises:
            InvalidInput: its task names no such secret, or too many are asked for at once.
            Fenced: it is not about to start there.
            SecretsUnusable: they can't be read.
            Unavailable: TaskManager is away.
        """
        if len(names) > _MOST_AT_ONCE:
            raise InvalidInput(f"{len(names)} secrets are asked for at once; {_MOST_AT_ONCE} are allowed.")
        found = await self._attempts.find(attempt, node_id)
        if not set(names) <= set(found.secrets):
            raise InvalidInput(f"The task of {attempt} does not name all of these secrets.")
        return await self._values(found.owner, names, attempt)

    async def _values(
        self, owner: str, names: Collection[str], attempt: AttemptId
    ) -> tuple[Mapping[str, bytes], Sequence[str]]:
        sealed = await self._db.read(lambda conn: store.sealed(conn, owner, names))

        def unseal() -> dict[str, bytes]:
            return {name: self._vault.unseal(owner, name, text) for name, text in sealed.items()}

        values = await asyncio.to_thread(unseal)
        log.info("secrets.given", attempt=str(attempt), account=owner, secrets=len(values))
        return values, [name for name in names if name not in sealed]
