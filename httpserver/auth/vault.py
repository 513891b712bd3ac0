"""Keeps passwords of registries and secrets of tasks encrypted (Fernet: AES-CBC with an HMAC).

The key lies in a file apart from the database. What is encrypted has its account and name inside, so that a row that
was copied to another account can't be opened there.

The file holds one key a line. The first encrypts; all decrypt. To change the key, put a new one on top and start the
service, which then encrypts everything anew. Take the old key out afterwards.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from sqlalchemy import Connection

from headway.errors import Unavailable
from headway.logs import get_logger
from headway.store.database import Database

log = get_logger(__name__)

_MOST_BYTES = 64 * 1024
_SECRET = "secret"  # a password of a registry has no such first word


class SecretsUnusable(Unavailable):
    """The key file is missing, damaged or another one: nothing stored can be read, nor anything new stored."""

    slug = "secrets-unusable"
    title = "Stored passwords and secrets can't be used now"


class Vault:
    """``ready`` once at start; then encrypts and decrypts in microseconds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = "The key file has not been read yet."
        self._all: MultiFernet | None = None
        self._first: Fernet | None = None
        self._asked: list[Callable[[Connection], bool]] = []
        self._ready = False

    def used_by(self, has_any: Callable[[Connection], bool]) -> None:
        """``has_any(conn)`` says whether something is stored that was encrypted here."""
        self._asked.append(has_any)

    async def ready(self, db: Database) -> None:
        """Opens it at the first call. Never raises: ``problem`` says what is wrong."""
        if self._ready:
            return
        self._ready = True
        stored = await db.read(lambda conn: any(has_any(conn) for has_any in self._asked))
        await asyncio.to_thread(self.open, stored=stored)

    def open(self, *, stored: bool) -> None:
        """Reads the keys; makes the file when it isn't there. Never raises: ``problem`` says what is wrong.

        ``stored``: something is encrypted already. Then a missing file is not made anew, so that putting the former one
        back heals everything.
        """
        self._all = self._first = None
        try:
            if not self.path.exists():
                if stored:
                    self.problem = (
                        f"{self.path}, the key to the stored passwords of registries and secrets of tasks, is gone: "
                        "put it back from a copy and start again, or delete all that is stored and start again."
                    )
                    return
                _make(self.path)
            self._read()
        except OSError as error:
            self.problem = f"{self.path} can't be used as the key to passwords and secrets: {error.strerror or error}."

    def encrypt(self, account: str, registry: str, password: str) -> str:
        """Text for the database. It holds for this account and registry only.

        Raises:
            SecretsUnusable: there is no key.
        """
        if self._first is None:
            raise SecretsUnusable(self.problem)
        return self._first.encrypt(json.dumps([account, registry, password]).encode()).decode()

    def decrypt(self, account: str, registry: str, text: str) -> str:
        """The password.

        Raises:
            SecretsUnusable: it was stored with a key that is not in the file.
        """
        if self._all is None:
            raise SecretsUnusable(self.problem)
        try:
            of, where, password = json.loads(self._all.decrypt(text))
        except (InvalidToken, ValueError) as error:
            raise SecretsUnusable(
                f"The password for {registry} was stored with a key that is not in {self.path}: put that key back as "
                "a further line and start again, or store the password again."
            ) from error
        if (of, where) != (account, registry) or not isinstance(password, str):
            raise SecretsUnusable(
                f"The stored password for {registry} belongs to another account or registry: store it again."
            )
        return password

    def seal(self, account: str, name: str, value: bytes) -> str:
        """Text for the database, of a secret of any bytes. It holds for this account and name only.

        Raises:
            SecretsUnusable: there is no key.
        """
        if self._first is None:
            raise SecretsUnusable(self.problem)
        words = [_SECRET, account, name, base64.b64encode(value).decode()]
        return self._first.encrypt(json.dumps(words).encode()).decode()

    def unseal(self, account: str, name: str, text: str) -> bytes:
        """The secret.

        Raises:
            SecretsUnusable: it was stored with a key that is not in the file, or for somebody else.
        """
        if self._all is None:
            raise SecretsUnusable(self.problem)
        try:
            kind, of, called, value = json.loads(self._all.decrypt(text))
            if (kind, of, called) == (_SECRET, account, name):
                return base64.b64decode(value, validate=True)
        except (InvalidToken, ValueError, TypeError) as error:
            raise SecretsUnusable(
                f"The secret `{name}` was stored with a key that is not in {self.path}: put that key back as a "
                "further line and start again, or store the secret again."
            ) from error
        raise SecretsUnusable(f"What is stored as the secret `{name}` belongs elsewhere: store it again.")

    def is_current(self, text: str) -> bool:
        """Whether the first key wrote it."""
        if self._first is None:
            return True
        with contextlib.suppress(InvalidToken):
            self._first.decrypt(text)
            return True
        return False

    def _read(self) -> None:
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            if mode & 0o077:
                self.problem = (
                    f"{self.path} can be read by others (mode {mode:04o}), so it is not used: run chmod 600 on it and "
                    "start again."
                )
                return
            lines = os.read(fd, _MOST_BYTES).decode("ascii", "replace").split()
        finally:
            os.close(fd)
        try:
            keys = [Fernet(line) for line in lines]
        except ValueError:
            keys = []
        if not keys:
            self.problem = (
                f"{self.path} holds no usable key: put the file back from a copy, or remove it and have the passwords "
                "of registries and the secrets stored again."
            )
            return
        self._first, self._all, self.problem = keys[0], MultiFernet(keys), ""


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, Fernet.generate_key() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    log.info("vault.key_made", path=str(path))
