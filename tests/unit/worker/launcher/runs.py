"""Runs the real launcher outside a container; it is then the reaper of its own descendants."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from worker import box as boxes
from worker.box import Box, EndRecord, LaunchSpec

ME = f"{os.getuid()}:{os.getgid()}"
PATH = "/usr/local/bin:/usr/bin:/bin"
PYTHON = sys.executable


@dataclass
class Run:
    """One attempt under the real launcher."""

    box: Box
    process: subprocess.Popen[bytes]

    def end(self, timeout_s: float = 20) -> EndRecord:
        """Wait for the launcher, check that it ended well, and read its record."""
        code = self.process.wait(timeout_s)
        assert code == 0, (code, self.log())
        record = boxes.read_end(self.box)
        assert record is not None, self.log()
        assert record.stdout_bytes == self.box.stdout.stat().st_size
        assert record.stderr_bytes == self.box.stderr.stat().st_size
        return record

    def log(self) -> str:
        return self.box.launcher_log.read_text()

    def out(self) -> bytes:
        return self.box.stdout.read_bytes()

    def err(self) -> bytes:
        return self.box.stderr.read_bytes()

    def wait_for_output(self, text: bytes, timeout_s: float = 10) -> None:
        """Return once the program has printed `text`."""
        self.wait_until(lambda: self.box.stdout.exists() and text in self.out(), timeout_s)

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = 10) -> None:
        """Real processes have no clock to advance: look often, give up late."""
        until = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < until, (self.log(), self.out()[-200:], self.err()[-200:])
            time.sleep(0.005)


class Runs:
    """Starts attempts and leaves none behind."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self._started: list[Run] = []

    def prepare(self, args: Sequence[str], *, env: Mapping[str, str] | None = None, **spec: Any) -> Box:
        """A box with a spec, not started. Keywords are fields of LaunchSpec."""
        box = boxes.create(self.folder / f"box{len(self._started)}-{time.monotonic_ns()}")
        base = LaunchSpec(
            args=tuple(args),
            env={"PATH": PATH} if env is None else env,
            user=ME,
            timeout_ms=20_000,
            grace_ms=3_000,
            lease_grace_ms=3_000,
            open_root=False,
        )
        boxes.write_spec(box, replace(base, **spec))
        boxes.write_lease(box, None)
        boxes.write_ticket(box, attempt=box.root.name, boot_id=boxes.boot_id())
        return box

    def launch(
        self, box: Box, *, launcher_env: Mapping[str, str] | None = None, prefix: Sequence[str] = (), **popen: Any
    ) -> Run:
        """Start the launcher on a prepared box; `prefix` is a command that ends by becoming the launcher."""
        process = subprocess.Popen(
            [*prefix, str(self.binary)],
            env={"HEADWAY_BOX": str(box.root), **(launcher_env or {})},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **popen,
        )
        run = Run(box, process)
        self._started.append(run)
        return run

    def __call__(self, *args: str, launcher_env: Mapping[str, str] | None = None, **spec: Any) -> Run:
        """Prepare and launch."""
        return self.launch(self.prepare(args, **spec), launcher_env=launcher_env)

    def sh(self, script: str, **spec: Any) -> Run:
        """Launch a shell script."""
        return self("/bin/sh", "-c", script, **spec)

    def py(self, script: str, **spec: Any) -> Run:
        """Launch a Python script."""
        return self(PYTHON, "-ISc", script, **spec)

    def close(self) -> None:
        for run in self._started:
            if run.process.poll() is None:
                boxes.write_stop(run.box, boxes.StopWord.SHUTDOWN, grace_ms=0)
                run.process.wait(10)


@contextlib.contextmanager
def user_namespace() -> Iterator[list[str]]:
    """A user namespace with the machine's own ids; yields the command that enters it with all capabilities."""
    with subprocess.Popen(
        ["unshare", "--user", "sh", "-c", "echo up && read _"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{holder.pid}/{name}").write_text("0 0 65536\n")
        yield ["nsenter", f"--user=/proc/{holder.pid}/ns/user", "--"]
        holder.stdin.close()
