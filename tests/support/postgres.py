"""A PostgreSQL server of the tests' own, in a folder and on a port of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import psycopg

from tests.support import processes
from tests.support.ports import free_port
from tests.support.waiting import soon


def bin_dir() -> Path:
    """Where the newest installed server's programs lie (Debian keeps them off the PATH)."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    if not found:
        raise RuntimeError("PostgreSQL is not installed")
    return found[-1].parent


class Postgres:
    """A running server; it listens on a Unix socket in ``folder`` and on a free loopback port.

    The server refuses to run as root, so under root it runs as the account ``postgres`` or, without one,
    ``nobody``. Durability is on, as in production: what tests see of commits is what users get.
    """

    def __init__(self, folder: Path, *, enter: Sequence[str] = (), address: str = "127.0.0.1") -> None:
        """``enter``: words before the server's command, which bring it into a network where it has this address."""
        self.folder = folder
        self.port = free_port()
        self._enter = list(enter)
        self._address = address
        self._bin = bin_dir()
        self._names = itertools.count(1)
        self.template = ""  # a database with the tables of all rooms (tests/support/databases.py)
        self._as: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            account = _unprivileged()
            self._as = [
                "setpriv",
                f"--reuid={account.pw_uid}",
                f"--regid={account.pw_gid}",
                "--clear-groups",
                "--",
            ]
            os.chown(folder, account.pw_uid, account.pw_gid)
            _let_through(folder)
        self._run(["initdb", "--pgdata", str(folder / "data"), "--username=headway", "--auth=trust", "--encoding=UTF8"])
        if address != "127.0.0.1":
            with (folder / "data" / "pg_hba.conf").open("a") as file:
                file.write("host all all samenet trust\n")
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> Postgres:
        """Start the server and wait until it takes connections."""
        log = (self.folder / "server.log").open("ab")
        settings = {
            "listen_addresses": self._address,
            "port": self.port,
            "unix_socket_directories": self.folder,
            "shared_buffers": "32MB",
            "max_connections": 60,
        }
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with log:
            self._server = subprocess.Popen(
                [*self._enter, *self._as, str(self._bin / "postgres"), "-D", str(self.folder / "data"), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        soon(self._answers, within_s=120, what="PostgreSQL takes connections")
        return self

    def kill9(self) -> None:
        """End the server as a power cut would, as far as the database can tell."""
        assert self._server is not None, "the server is not running"
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait()
        self._server = None

    def pause(self) -> None:
        """Make the server hang, and all that it does for others."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo :meth:`pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._server is not None, "the server is not running"
        for pid in (self._server.pid, *processes.children(self._server.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        """End the server and every connection to it."""
        if self._server is None:
            return
        # SIGINT is the "fast" shutdown: it doesn't wait for clients.
        self._server.send_signal(signal.SIGINT)
        try:
            self._server.wait(20)
        except subprocess.TimeoutExpired:
            self.kill9()
        self._server = None

    def close(self) -> None:
        """End the server and remove its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres") -> str:
        """An SQLAlchemy URL, over the Unix socket."""
        return f"postgresql+psycopg://headway@/{database}?host={quote(str(self.folder))}&port={self.port}"

    def tcp_url(self, database: str = "postgres") -> str:
        """The same over TCP, in the form people write: postgresql://user@host:port/name."""
        return f"postgresql://headway@{self._address}:{self.port}/{database}"

    def new_database(self, of: str = "") -> str:
        """A new database, empty or a copy of another one; its name."""
        name = f"test{next(self._names)}"
        copied = f' TEMPLATE "{of}"' if of else ""
        with psycopg.connect(self._conninfo(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"{copied}'.encode())
        return name

    def _conninfo(self) -> str:
        return f"host={self.folder} port={self.port} user=headway dbname=postgres connect_timeout=2"

    def _answers(self) -> bool:
        assert self._server is not None
        if self._server.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended:\n{(self.folder / 'server.log').read_text()[-2000:]}")
        try:
            with psycopg.connect(self._conninfo()):
                return True
        except psycopg.OperationalError:
            return False

    def _run(self, command: Sequence[str]) -> None:
        program, *arguments = command
        done = subprocess.run(
            [*self._as, str(self._bin / program), *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{done.stderr}")


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("there is no account under which PostgreSQL could run")


def _let_through(folder: Path) -> None:
    """Let other accounts pass through the folders above: pytest and mktemp make theirs for one account only."""
    for parent in folder.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/") and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o111)
