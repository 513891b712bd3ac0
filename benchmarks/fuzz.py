"""The whole HTTP API as an ordinary account, and all gRPC methods, with random and broken contents.

HEADWAY_FUZZ_EACH: how many calls of each operation, and how many messages for each gRPC method (300).
HEADWAY_FUZZ_SEED: of what is drawn. Nothing may answer 500 or INTERNAL, and every process must live on.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task

from .fuzzing import http_calls, rpc_calls
from .measure import Figure

EACH = 300
DOCUMENT = Path(__file__).resolve().parents[1] / "httpserver" / "openapi.json"


def fuzz() -> Iterator[Figure]:
    each = int(os.environ.get("HEADWAY_FUZZ_EACH", EACH))
    seed = int(os.environ.get("HEADWAY_FUZZ_SEED", "1"))
    with tempfile.TemporaryDirectory(prefix="hwb") as folder, a_cluster(Path(folder)) as cluster:
        calls, over_http, over_rpc = findings(cluster, each=each, seed=seed)
    for line in over_http + over_rpc:
        print(line, file=sys.stderr)
    yield Figure(f"fuzz: {calls} HTTP calls, findings", len(over_http), "", 0)
    yield Figure(f"fuzz: {each} messages for each gRPC method, findings", len(over_rpc), "", 0)


def findings(cluster: Cluster, *, each: int, seed: int) -> tuple[int, list[str], list[str]]:
    """How many HTTP calls it were; what went wrong over HTTP and over gRPC, one line each."""
    chance = random.Random(seed)
    eve, root = cluster.user("eve"), cluster.client
    ids = [client.submit(a_job(scripted_task("a", run_s=600)))["id"] for client in (eve, root)]
    eve.make_folder("a")
    known = {
        "job": ids[0], "task": "a", "number": "latest", "stream": "stdout", "kind": "files", "name": "eve", "path": "a",
    }  # fmt: skip
    document = json.loads(DOCUMENT.read_text("utf-8"))
    # A token that lasts, since one of the calls signs out.
    lasting = eve.ask("POST", "/tokens", json={"name": "fuzz"})["token"]
    calls, over_http = http_calls.found(cluster.url, lasting, document, known, each=each, chosen=seed)
    token = (cluster.folder / "token").read_text().strip()
    over_rpc = []
    for service in ("httpserver", "job_manager", "resource_manager", "task_manager"):
        over_rpc += rpc_calls.found(service, cluster.address(service), token, chance, each)
    for node in cluster.workers:
        over_rpc += rpc_calls.found("worker", cluster.worker_address(node), token, chance, each)
    for name, process in cluster.processes.items():
        if process.poll() is not None:
            over_rpc.append(f"{name} ended with {process.returncode}")
        over_rpc += [f"{name}: {line}" for line in cluster.log(name).splitlines() if "rpc.crashed" in line]
        over_http += [f"{name}: {line}" for line in cluster.log(name).splitlines() if "http.failed" in line]
    return calls, over_http, over_rpc
