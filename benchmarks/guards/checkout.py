"""Copies of the checkout, in which guards are taken away and tests run. The checkout itself is never changed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .guard_list import BadList, Guard
from .mutation import mutated

_TEST_S = 60  # for one test
_LAUNCHER = Path("worker/launcher/bin/headway-launcher")


@dataclass(frozen=True, slots=True)
class TestRun:
    """How pytest ended. ``code`` None: it took too long."""

    code: int | None
    output: str
    took_s: float

    @property
    def first_failure(self) -> str:
        """The test that failed first; empty: none is named."""
        summary = self.output.partition(" short test summary info ")[2]
        for line in summary.splitlines():
            if line.startswith(("FAILED ", "ERROR ")):
                return line.split()[1]
        return ""


class CheckoutCopy:
    """One copy: with all files that git knows or would take, and the launcher where it is built."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder
        self._stamp = 0
        for name in _files(root):
            source = root / name
            if source.is_file() and not source.is_symlink():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        if (root / _LAUNCHER).exists():
            (folder / _LAUNCHER).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / _LAUNCHER, folder / _LAUNCHER)
        if (root / ".venv").exists():
            (folder / ".venv").symlink_to((root / ".venv").resolve())

    @contextlib.contextmanager
    def without(self, guard: Guard) -> Iterator[None]:
        """The copy lacks the guard meanwhile.

        Raises:
            BadList: the list does not fit the code, or the launcher can't be built without the guard.
        """
        path = self._folder / guard.file
        try:
            before, times = path.read_text("utf-8"), path.stat()
        except OSError as error:
            raise BadList(f"{guard.name}: {guard.file} can't be read: {error.strerror}.") from error
        after = mutated(before, guard)
        in_c = path.suffix == ".c"
        binary = self._folder / _LAUNCHER
        built = binary.read_bytes() if in_c and binary.exists() else None
        self._stamp += 10
        try:
            path.write_text(after, "utf-8")
            if in_c:
                self._build(guard)
            else:
                # Python takes its compiled file for fresh if time and length are the same.
                os.utime(path, (times.st_atime, times.st_mtime + self._stamp))
            yield
        finally:
            path.write_text(before, "utf-8")
            os.utime(path, (times.st_atime, times.st_mtime))
            if built is not None:
                binary.write_bytes(built)

    def test(self, tests: Sequence[str], *, limit_s: float) -> TestRun:
        """Runs these tests until the first fails."""
        arguments = ["-x", "-q", "--tb=line", f"--timeout={_TEST_S}", *tests]
        # Plugins that no test uses, but that each of some hundred runs would load.
        arguments += [word for plugin in ("cacheprovider", "schemathesis", "anyio") for word in ("-p", f"no:{plugin}")]
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=self._folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        code: int | None
        try:
            output, _ = process.communicate(timeout=limit_s)
            code = process.returncode
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            output, code = process.communicate()[0], None
        return TestRun(code, output, time.monotonic() - began)

    def _build(self, guard: Guard) -> None:
        done = subprocess.run(
            [sys.executable, "worker/launcher/build.py"],
            cwd=self._folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BadList(f"{guard.name}: the launcher can't be built without it.\n{done.stderr[-2000:]}")

    def _environment(self) -> dict[str, str]:
        cache = str(self._root / ".cache" / "zig")
        return {
            **os.environ,
            "PYTHONPATH": str(self._folder),
            "ZIG_GLOBAL_CACHE_DIR": cache,
            "ZIG_LOCAL_CACHE_DIR": cache,
        }


def _files(root: Path) -> list[str]:
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(command, capture_output=True, check=True)
    return [name.decode() for name in found.stdout.split(b"\0") if name]
