"""GPUs for people's own processes on a machine: how soon they are granted, and how soon the program starts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from headway.client.gpu_holding import Holding, Wanted
from tests.support.cluster import a_cluster

from .measure import Figure, median, quantile

GRANTS = 60
STARTS = 20
GRANT_GOAL_MS = 100.0
START_GOAL_MS = 150.0


def gpu_run() -> Iterator[Figure]:
    """On a free machine."""
    with (
        tempfile.TemporaryDirectory(prefix="hwb") as folder,
        a_cluster(Path(folder), worker__simulated_gpus=2) as cluster,
    ):
        environ = {**cluster.environ(), "HEADWAY_GPU_SOCKET": str(cluster.gpu_socket("n1"))}
        took = sorted(_grant_ms(environ) for _ in range(GRANTS))
        note = f"{GRANTS} in a row, median {median(took):.0f} ms, longest {took[-1]:.0f} ms"
        yield Figure("gpu run: request to grant, p95", quantile(took, 0.95), "ms", GRANT_GOAL_MS, note=note)
        # In turns: a busy machine slows both alike.
        pairs = [(_version_ms(environ), _start_ms(environ)) for _ in range(STARTS)]
        version, start = [one[0] for one in pairs], [one[1] for one in pairs]
        note = f"`headway --version` takes {median(version):.0f} ms, the program's start {median(start):.0f} ms"
        more = median(start) - median(version)
        yield Figure("gpu run: start beyond --version, median", more, "ms", START_GOAL_MS, note=note)


def _grant_ms(environ: dict[str, str]) -> float:
    """From the moment before the request is sent."""
    holding = Holding(Wanted(1, "60s"), tell=lambda line: None, on_stop=lambda why, grace_s: None, environ=environ)
    began = time.monotonic()
    holding.acquire()
    took = (time.monotonic() - began) * 1000
    holding.give_back()
    return took


def _version_ms(environ: dict[str, str]) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "headway", "--version"], env=environ, capture_output=True, check=True)
    return (time.monotonic() - began) * 1000


def _start_ms(environ: dict[str, str]) -> float:
    """Until the program runs, and says so."""
    command = [sys.executable, "-m", "headway", "gpu", "run", "--timeout", "60s", "--", "echo", "here"]
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 64)
        took = (time.clock_gettime(time.CLOCK_BOOTTIME) - began) * 1000
    assert process.returncode == 0
    return took
