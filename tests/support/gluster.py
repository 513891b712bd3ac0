"""A GlusterFS volume of the tests' own: the network mount that stands for any shared mount.

The server runs in a network namespace of its own, so its fixed port meets no other server's; the mount itself is
seen everywhere, containers included. Cutting the network makes it hang as a lost server does.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support import mounts, processes
from tests.support.namespaces import new_network_namespace
from tests.support.waiting import soon

# Gluster refuses loopback addresses; this one exists in the namespace only.
_ADDRESS = "10.77.0.1"


class Gluster:
    """One server, one volume of one brick, one mount at :attr:`mount`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mount = folder / "mount"
        self.brick = folder / "brick"
        for part in (self.mount, self.brick, folder / "server", folder / "run", folder / "log"):
            part.mkdir(parents=True, exist_ok=True)
        self._network = new_network_namespace(f"ip addr add {_ADDRESS}/32 dev lo")
        self._socket = folder / "glusterd.sock"
        self._server: subprocess.Popen[bytes] | None = None
        self._client: subprocess.Popen[bytes] | None = None

    def start(self) -> Gluster:
        """Start the server, make the volume, mount it."""
        self._start_server()
        self._gluster("volume", "create", "gv0", f"{_ADDRESS}:{self.brick}", "force")
        self._gluster("volume", "start", "gv0")
        # A hang of the mount should be told within the patience of a test.
        self._gluster("volume", "set", "gv0", "network.ping-timeout", "3")
        self.mount_it()
        return self

    def mount_it(self) -> None:
        """Mount the volume."""
        log = self.folder / "log" / "client.log"
        self._client = self._spawn(
            [
                "glusterfs",
                "-N",
                f"--volfile-server={_ADDRESS}",
                "--volfile-id=gv0",
                f"--log-file={log}",
                str(self.mount),
            ]
        )
        soon(lambda: os.path.ismount(self.mount), within_s=30, what=f"GlusterFS is mounted; log: {log}")

    def unmount(self) -> None:
        """Take the mount away, as a reboot or an admin does; what lies under it is an empty folder."""
        mounts.unmount_below(self.mount)
        self._end(self._client)
        self._client = None

    def kill_client(self) -> None:
        """End the process behind the mount: every call then says that the endpoint is not connected."""
        if self._client is not None:
            self._client.kill()
            self._client.wait()
            self._client = None

    def stop_brick(self) -> None:
        """End the server's process that holds the files."""
        for pid in processes.naming(str(self.brick)):
            os.kill(pid, signal.SIGKILL)

    def start_brick(self) -> None:
        """Undo :meth:`stop_brick`."""
        self._gluster("volume", "start", "gv0", "force")

    def cut(self) -> None:
        """Cut the network between mount and server."""
        self._in_network("ip", "link", "set", "lo", "down")

    def heal(self) -> None:
        """Undo :meth:`cut`."""
        self._in_network("ip", "link", "set", "lo", "up")

    def close(self) -> None:
        """Unmount, stop and remove everything."""
        self.heal()
        self.unmount()
        self._end(self._server)
        # Bricks are servers of their own, started by glusterd.
        for pid in processes.naming(str(self.folder)):
            os.kill(pid, signal.SIGKILL)
        os.close(self._network)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_server(self) -> None:
        volfile = self.folder / "glusterd.vol"
        options = {
            "working-directory": self.folder / "server",
            "run-directory": self.folder / "run",
            "glusterd-sockfile": self._socket,
            "transport-type": "socket",
            "transport.socket.keepalive-time": 10,
        }
        lines = "".join(f"    option {key} {value}\n" for key, value in options.items())
        volfile.write_text(f"volume management\n    type mgmt/glusterd\n{lines}end-volume\n")
        log = self.folder / "log" / "glusterd.log"
        self._server = self._spawn(
            [
                "glusterd",
                "-N",
                f"--volfile={volfile}",
                f"--log-file={log}",
                f"--pid-file={self.folder / 'glusterd.pid'}",
            ]
        )
        soon(self._answers, within_s=30, what=f"glusterd answers; its log is {log}")

    def _answers(self) -> bool:
        return (
            self._run(["gluster", f"--glusterd-sock={self._socket}", "--mode=script", "pool", "list"]).returncode == 0
        )

    def _gluster(self, *words: str) -> None:
        done = self._run(["gluster", f"--glusterd-sock={self._socket}", "--mode=script", *words])
        if done.returncode != 0:
            raise RuntimeError(f"gluster {' '.join(words)} failed: {done.stderr or done.stdout}")

    def _in_network(self, *command: str) -> None:
        done = self._run(command)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")

    def _enter(self) -> list[str]:
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self._network}", "--"]

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self._enter(), *command], capture_output=True, text=True, check=False)

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._enter(), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @staticmethod
    def _end(process: subprocess.Popen[bytes] | None) -> None:
        if process is None:
            return
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
