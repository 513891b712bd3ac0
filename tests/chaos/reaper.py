"""Takes down what a chaos run leaves when it is killed: `tests/run` does the same for the tests.

    with watched(run_id, folder): ...

A process of its own waits for the end of the run. One that ends without a word has been killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support import mounts

_VARIABLE = "HEADWAY_TESTS_RUN"
_WELL = b"w"
_ROUNDS = 20


@contextmanager
def watched(run_id: str, folder: Path) -> Iterator[None]:
    """What runs with this id, or is mounted below this folder, goes even if this process is killed meanwhile."""
    environment = {key: value for key, value in os.environ.items() if key != _VARIABLE}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.reaper", run_id, str(folder)],
        stdin=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    ) as reaper:
        assert reaper.stdin is not None
        yield
        reaper.stdin.write(_WELL)


def left_over(run_id: str) -> list[int]:
    """The pids of a run's processes: by the variable that they inherit, and by the control groups of its containers."""
    wanted = f"{_VARIABLE}={run_id}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            inherits = wanted in (entry / "environ").read_bytes().split(b"\0")
            if inherits or f"/{run_id}-" in (entry / "cgroup").read_text():
                found.append(int(entry.name))
    return found


def take_down(run_id: str, folder: Path) -> None:
    """Ends its processes, unmounts what is below its folder, and removes that."""
    for _ in range(_ROUNDS):  # what a killed parent had just started shows up in the next round
        pids = left_over(run_id)
        if not pids:
            break
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
    mounts.unmount_below(folder)
    for group in sorted(Path("/sys/fs/cgroup").glob(f"*/{run_id}-*/**/"), key=lambda path: -len(path.parts)):
        with suppress(OSError):
            group.rmdir()
    shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    run_id, folder = sys.argv[1], Path(sys.argv[2])
    if sys.stdin.buffer.read() != _WELL:
        take_down(run_id, folder)


if __name__ == "__main__":
    main()
