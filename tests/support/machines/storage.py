"""A GlusterFS volume of two bricks on two machines, and its mount on others."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support import mounts, processes
from tests.support.waiting import soon

from .machine import Machine

_VOLUME = "gv0"
# A brick or a line that is lost is told within the patience of a test. The first brick decides what counts: so two
# halves never go ways of their own.
_SETTINGS = {
    "network.ping-timeout": "3",
    "cluster.quorum-type": "auto",
    "cluster.heal-timeout": "5",
    "performance.flush-behind": "off",
}


@dataclass(frozen=True)
class Store:
    """One server of the volume with its brick. Paths must be short: sockets are named after them."""

    machine: Machine
    brick: Path

    def start_server(self) -> None:
        """Start glusterd; it starts the brick again where the volume has one."""
        folder = self.machine.folder
        for name in ("server", "run", "log"):
            (folder / name).mkdir(exist_ok=True)
        options = {
            "working-directory": folder / "server",
            "run-directory": folder / "run",
            "logging-directory": folder / "log",
            "glusterd-sockfile": self._socket,
            "transport-type": "socket",
            "transport.socket.keepalive-time": 10,
        }
        lines = "".join(f"    option {key} {value}\n" for key, value in options.items())
        volfile = folder / "glusterd.vol"
        volfile.write_text(f"volume management\n    type mgmt/glusterd\n{lines}end-volume\n")
        log = folder / "log" / "glusterd.log"
        pid = folder / "glusterd.pid"
        words = ["glusterd", "-N", f"--volfile={volfile}", f"--log-file={log}", f"--pid-file={pid}"]
        self.machine.start("glusterd", words)
        soon(lambda: self.gluster("pool", "list").returncode == 0, within_s=60, what=f"glusterd answers; see {log}")

    @property
    def _socket(self) -> Path:
        return self.machine.folder / "g.sock"

    def gluster(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs the command line of this server."""
        command = ("gluster", f"--glusterd-sock={self._socket}", "--mode=script", *words)
        return self.machine.network.run(*command, check=False)

    def must(self, *words: str) -> str:
        """The same, and it must work."""
        done = self.gluster(*words)
        if done.returncode != 0:
            raise RuntimeError(f"gluster {' '.join(words)} failed: {done.stderr or done.stdout}")
        return done.stdout

    def kill_brick(self) -> None:
        """Ends the process that holds the files."""
        for pid in processes.naming(str(self.brick)):
            os.kill(pid, signal.SIGKILL)

    def start_brick(self) -> None:
        """Undoes :meth:`kill_brick`."""

        def runs() -> bool:  # a server that has not noticed the death starts none
            self.gluster("volume", "start", _VOLUME, "force")
            return bool(processes.naming(f"--brick-name {self.brick}".replace(" ", "\0")))

        soon(runs, within_s=60, every_s=1.0, what=f"the brick starts; see {self.machine.folder / 'log'}")

    def close(self) -> None:
        """Ends the server and its bricks."""
        if "glusterd" in self.machine.processes:
            self.machine.kill9("glusterd")
        for pid in processes.naming(str(self.machine.folder)):
            os.kill(pid, signal.SIGKILL)


class Volume:
    """One volume, each file on both bricks."""

    def __init__(self, first: Store, second: Store) -> None:
        self.first = first
        self.second = second

    def make(self) -> None:
        """Start both servers and the volume."""
        for store in (self.first, self.second):
            store.brick.mkdir(parents=True, exist_ok=True)
            store.start_server()
        self.first.must("peer", "probe", self.second.machine.address)
        soon(
            lambda: self.first.must("pool", "list").count("Connected") == 2,
            within_s=60,
            every_s=0.3,
            what="the servers know each other",
        )
        bricks = [f"{store.machine.address}:{store.brick}" for store in (self.first, self.second)]
        soon(
            lambda: self.first.gluster("volume", "create", _VOLUME, "replica", "2", *bricks, "force").returncode == 0,
            within_s=60,
            every_s=0.5,
            what="the volume is made",
        )
        for key, value in _SETTINGS.items():
            self.first.must("volume", "set", _VOLUME, key, value)
        self.first.must("volume", "start", _VOLUME)

    def healed(self) -> bool:
        """Whether both bricks hold the same: neither notes a file that the other one lacks."""
        return not any(_noted(store.brick) for store in (self.first, self.second))

    def mounted(self, machine: Machine, at: Path) -> Mounted:
        """The volume's mount on a machine."""
        at.mkdir(parents=True, exist_ok=True)
        mount = Mounted(self, machine, at)
        mount.start()
        return mount

    def close(self) -> None:
        for store in (self.second, self.first):
            store.close()


@dataclass
class Mounted:
    """The volume as one machine sees it at ``at``."""

    volume: Volume
    machine: Machine
    at: Path

    def start(self) -> None:
        """Mount it."""
        log = self.machine.folder / "mount.log"
        servers = [f"--volfile-server={store.machine.address}" for store in (self.volume.first, self.volume.second)]
        options = [f"--volfile-id={_VOLUME}", f"--log-file={log}", "--entry-timeout=1", "--attribute-timeout=1"]
        self.machine.start("glusterfs", ["glusterfs", "-N", *servers, *options, str(self.at)])
        soon(lambda: os.path.ismount(self.at), within_s=60, what=f"GlusterFS is mounted at {self.at}; see {log}")

    def kill(self) -> None:
        """Ends the process behind the mount: every call then says that the endpoint is not connected."""
        self.machine.kill9("glusterfs")

    def again(self) -> None:
        """Undoes :meth:`kill`, as an admin does."""
        mounts.unmount_below(self.at)
        if "glusterfs" in self.machine.processes:
            self.machine.kill9("glusterfs")
        self.start()

    def read_only(self, on: bool) -> bool:
        """Mounts it anew, read-only or not. False: refused, since a file is open for writing."""
        words = ("mount", "-o", f"remount,bind,{'ro' if on else 'rw'}", str(self.at))
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    def close(self) -> None:
        self.machine.resume("glusterfs")
        mounts.unmount_below(self.at)
        if "glusterfs" in self.machine.processes:
            self.machine.kill9("glusterfs")


def _noted(brick: Path) -> list[str]:
    """Files that a brick has to give the other one, by GlusterFS' own index."""
    notes = brick / ".glusterfs" / "indices"
    found = [entry for kind in ("xattrop", "dirty", "entry-changes") for entry in _names(notes / kind)]
    return [name for name in found if not name.startswith(("xattrop-", "dirty-", "entry-changes-"))]


def _names(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []
