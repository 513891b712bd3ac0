"""`headway up` as a person starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.ports import free_port
from tests.support.waiting import soon


class Up:
    """One state folder and the commands of a person beside it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.state = folder / "state"
        self.port = free_port()
        self.environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config"), **environment}
        self.environment.pop("HEADWAY_URL", None)
        self.process: subprocess.Popen[str] | None = None
        self._output = folder / "output"

    @property
    def said(self) -> str:
        return self._output.read_text()

    def start(self, *options: str) -> None:
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headway", "up", "--state", str(self.state), *options],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                text=True,
            )
        soon(lambda: "Headway is ready at" in self.said, within_s=90, what="ready")

    def headway(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "headway", *words],
            env=self.environment, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def services(self) -> dict[str, int]:
        """Name to process id, of all that run with this folder's settings."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    words = (entry / "cmdline").read_bytes().decode().split("\0")
                except OSError:
                    continue
                if "serve" in words and str(self.state / "headway.toml") in words:
                    found[words[words.index("serve") + 1]] = int(entry.name)
        return found

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.said

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        soon(lambda: not self.services(), within_s=40, what="all services are gone")
