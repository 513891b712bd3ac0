"""What systemd does with a unit, as far as Headway's units need it: no systemd runs where the tests run.

It knows ExecStart, Type=notify, Restart=on-failure with RestartSec, KillMode=process and mixed, and TimeoutStopSec. A
unit's processes are those of its session, which stands for its control group.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from .waiting import soon


class UnitRunner:
    """One unit. ``log`` gets what its process writes; ``before`` stands in front of its command, as `nsenter` does."""

    def __init__(self, name: str, text: str, log: Path, *, before: Sequence[str] = ()) -> None:
        self.name, self._log, self._before = name, log, before
        self.settings = settings_of(text)
        # A path, short enough: abstract names end at a network namespace.
        self._folder = tempfile.TemporaryDirectory(prefix="hwu")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._place = f"{self._folder.name}/notify"
        self._socket.bind(self._place)
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.ends: list[int] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, within_s: float = 90) -> None:
        """As `systemctl start`: returns when the service has said that it is ready.

        Raises:
            AssertionError: it ended instead, or said nothing in time.
        """
        self._stopping.clear()
        self._ready.clear()
        self._spawn()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()
        self.wait_ready(within_s)

    def wait_ready(self, within_s: float = 90) -> None:
        assert self._ready.wait(within_s), f"{self.name} is not ready:\n{self._log.read_text()[-3000:]}"

    def stop(self) -> int:
        """As `systemctl stop`: TERM to the main process, KILL to what is left as KillMode says. The exit status."""
        self._stopping.set()
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(float(self.settings["TimeoutStopSec"]))
        except subprocess.TimeoutExpired:
            self.process.kill()
        if self.settings["KillMode"] == "mixed":
            self._kill_the_rest()
        status = self.process.wait()
        assert self._thread is not None
        self._thread.join(10)
        return status

    def restart(self) -> None:
        """As `systemctl restart`."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """As a fault: the main process ends without a word, and what follows is the unit's matter."""
        assert self.process is not None
        before, self._ready = self.starts, threading.Event()
        self.process.kill()
        soon(lambda: self.starts > before, within_s=60, what=f"{self.name} is started again")

    def _spawn(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._before, *words_of(self.settings["ExecStart"])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "NOTIFY_SOCKET": self._place},
                start_new_session=True,
            )
        self.starts += 1

    def _keep(self) -> None:
        while True:
            assert self.process is not None
            status = self.process.wait()
            self.ends.append(status)
            clean = status in (0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGPIPE)
            if self._stopping.is_set() or clean or self.settings["Restart"] != "on-failure":
                return
            if self.settings["KillMode"] != "process":
                self._kill_the_rest()
            time.sleep(float(self.settings["RestartSec"]))
            if self._stopping.is_set():
                return
            self._spawn()

    def _kill_the_rest(self) -> None:
        assert self.process is not None
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _listen(self) -> None:
        while True:
            if b"READY=1" in self._socket.recv(4096).split(b"\n"):
                self._ready.set()


def settings_of(text: str) -> dict[str, str]:
    """The [Service] section of a unit, as written."""
    section = re.search(r"^\[Service\]$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    return dict(line.split("=", 1) for line in section[1].splitlines() if "=" in line)


def words_of(command: str) -> list[str]:
    """A command line as systemd reads it: words, quotes, `%%` and `$$`."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', command)
    plain = [re.sub(r"\\(.)", r"\1", quoted) if quoted else bare for quoted, bare in words]
    return [word.replace("%%", "%").replace("$$", "$") for word in plain]
