"""A server's folder and its clients' mounts.

share = NfsShare(folder)
here = share.mount("n1", late_s=1)         # a path; share.mount("n2", squash=True) is another machine's
share.down(); share.up()                   # every call waits meanwhile
share.close()
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import mounts
from tests.support.waiting import soon


class NfsShare:
    """``export`` is what lies on the server's disk. Mounts end with `close`, also while the server is down."""

    def __init__(self, folder: Path) -> None:
        self.export = folder / "export"
        self._control = folder / "control"
        self._mounts = folder / "mounts"
        for part in (self.export, self._control, self._mounts):
            part.mkdir(parents=True, exist_ok=True)
        self._clients: dict[str, subprocess.Popen[bytes]] = {}

    def mount(self, name: str, *, squash: bool = False, late_s: float = 0.0) -> Path:
        """The mount of another machine, by its name."""
        target = self._mounts / name
        target.mkdir(exist_ok=True)
        with (self._control / f"{name}.log").open("ab") as log:
            self._clients[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.support.nfs.client"]
                + [str(self.export), str(target), str(self._control), f"--late={late_s}"]
                + (["--squash"] if squash else []),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        soon(lambda: os.path.ismount(target), within_s=20, what=f"{target} is mounted")
        return target

    def down(self) -> None:
        """The server goes away: calls wait."""
        (self._control / "down").touch()

    def up(self) -> None:
        """The server is back: calls that waited go on."""
        (self._control / "down").unlink(missing_ok=True)

    def full(self, full: bool) -> None:
        """Whether the server's disk takes no more data."""
        (self._control / "full").touch() if full else (self._control / "full").unlink(missing_ok=True)

    def unmount(self, name: str) -> None:
        """Takes one machine's mount away."""
        mounts.unmount_below(self._mounts / name)
        client = self._clients.pop(name)
        client.kill()
        client.wait()

    def close(self) -> None:
        """Safe twice."""
        self.up()
        for name in list(self._clients):
            self.unmount(name)
