"""Runs a service as `headway` does, and writes down when its event loop came late.

    python -m benchmarks.loop LATE.txt serve task_manager --config headway.toml

Other programs on the machine make the loop late too, but they use none of its thread's CPU time. So that CPU time is
the service's own part, whatever the load.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from headway.lifecycle import Service

_EVERY_S = 0.005
_LEAST_S = 0.002


@dataclass(frozen=True, slots=True)
class Late:
    """How long the loop could not do what was due, and how much of that was CPU time of its own thread."""

    at_s: float  # `time.monotonic`
    late_s: float
    cpu_s: float


def read(path: Path, since_s: float, until_s: float) -> list[Late]:
    """What was noticed between these moments."""
    found = []
    for line in path.read_text().splitlines():
        late = Late(*map(float, line.split()))
        if since_s <= late.at_s <= until_s:
            found.append(late)
    return found


async def _watch(path: Path) -> None:
    with path.open("w", buffering=1) as out:
        while True:
            began_s, cpu_s = time.monotonic(), time.thread_time()
            await asyncio.sleep(_EVERY_S)
            now_s = time.monotonic()
            late_s = now_s - began_s - _EVERY_S
            if late_s >= _LEAST_S:
                out.write(f"{now_s:.4f} {late_s:.4f} {min(late_s, time.thread_time() - cpu_s):.4f}\n")


if __name__ == "__main__":
    from headway.cli.main import main

    late_path = Path(sys.argv[1])
    run_service = Service.run

    async def run(self: Service, *, signals: bool = True) -> None:
        self.side_task("loop watch", lambda: _watch(late_path))
        await run_service(self, signals=signals)

    Service.run = run  # type: ignore[method-assign]
    sys.argv = ["headway", *sys.argv[2:]]
    main()
