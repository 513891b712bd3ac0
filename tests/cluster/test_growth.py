"""A queue that grows its own machines: the example hook starts workers in network namespaces, and stops them again."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import QUICK_LEASES, a_cluster, a_job, scripted_task
from tests.support.ports import free_ports
from tests.support.settings_file import write_settings
from tests.support.waiting import soon

ROOT = Path(__file__).resolve().parents[2]
MOST = 4
TASKS = 40

# Called with a node's name: a namespace on the bridge, and a worker of that name in it.
START = """#!/bin/sh
set -e
name=$1 number=${1##*-}
space="$SPACE-$number" address="$NET.$((number + 1))"
ip netns add "$space"
ip link add "$LINK$number" type veth peer name eth0 netns "$space"
ip link set "$LINK$number" master "$BRIDGE" up
ip -n "$space" link set lo up
ip -n "$space" addr add "$address/24" dev eth0
ip -n "$space" link set eth0 up
mkdir -p "$FOLDER/$name"
sed -e "s|@NAME@|$name|g" -e "s|@ADDRESS@|$address|g" "$FOLDER/worker.toml" > "$FOLDER/$name.toml"
setsid ip netns exec "$space" "$PYTHON" -m headway serve worker --config "$FOLDER/$name.toml" \
  >> "$FOLDER/$name.log" 2>&1 < /dev/null &
echo $! > "$FOLDER/$name.pid"
echo "$name" >> "$FOLDER/started"
"""
STOP = """#!/bin/sh
name=$1
pid=$(cat "$FOLDER/$name.pid" 2>/dev/null) || exit 0
kill "$pid" 2>/dev/null
while readlink "/proc/$pid/exe" >/dev/null 2>&1; do sleep 0.1; done
rm -f "$FOLDER/$name.pid"
ip netns del "$SPACE-${name##*-}"
echo "$name" >> "$FOLDER/stopped"
"""


class Machines:
    def __init__(self, folder: Path) -> None:
        mark = secrets.token_hex(2)
        self.folder = folder
        self.net = f"10.{secrets.randbelow(100) + 100}.{secrets.randbelow(250)}"
        self.bridge = f"hwg{mark}"
        self.environment = {
            "FOLDER": str(folder),
            "SPACE": f"hw-grow-{mark}",
            "LINK": f"hg{mark}-",
            "BRIDGE": self.bridge,
            "NET": self.net,
            "PYTHON": sys.executable,
            "HEADWAY_COMMAND": f"{sys.executable} -m headway",
        }
        for name, text in (("start", START), ("stop", STOP)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().split() if file.exists() else []

    def close(self) -> None:
        environment = {**os.environ, **self.environment}
        for pid in self.folder.glob("*.pid"):
            subprocess.run([str(self.folder / "stop"), pid.stem], env=environment, check=False)
        subprocess.run(["ip", "link", "del", self.bridge], check=False)


@contextmanager
def machines(folder: Path) -> Iterator[Machines]:
    folder.mkdir()
    made = Machines(folder)
    ip = ["ip", "link", "add", made.bridge, "type", "bridge"]
    subprocess.run(ip, check=True)
    try:
        subprocess.run(["ip", "addr", "add", f"{made.net}.1/24", "dev", made.bridge], check=True)
        subprocess.run(["ip", "link", "set", made.bridge, "up"], check=True)
        yield made
    finally:
        made.close()


@pytest.mark.root
@pytest.mark.slow
def test_a_queue_grows_to_the_most_and_shrinks_to_the_least_and_loses_nothing(tmp_path: Path) -> None:
    ports = dict(zip(("task_manager", "resource_manager", "httpserver"), free_ports(3), strict=True))
    with machines(tmp_path / "machines") as made:
        hook = tmp_path / "hook.toml"
        settings = {
            "cluster__insecure_network": True,
            "task_manager__bind": f"{made.net}.1:{ports['task_manager']}",
            "resource_manager__bind": f"{made.net}.1:{ports['resource_manager']}",
            "httpserver__grpc_bind": f"{made.net}.1:{ports['httpserver']}",
            "task_manager__autoscale__command": [sys.executable, str(ROOT / "deploy/autoscale/hook.py"), str(hook)],
            "task_manager__autoscale__waits_s": 1,
            "task_manager__autoscale__idle_s": 4,
            "task_manager__autoscale__cooldown_s": 2,
            "task_manager__autoscale__max_nodes": MOST,
            "task_manager__autoscale__min_nodes": 1,
            "worker__cpus": 2,
            "worker__memory_bytes": 8 << 30,
            **QUICK_LEASES,
        }
        with a_cluster(tmp_path / "cluster", workers=(), start=False, **settings) as cluster:
            common = {**cluster._common}
            own = {
                "worker.node_id": "@NAME@",
                "worker.bind": "@ADDRESS@:7004",
                "worker.folder": f"{made.folder}/@NAME@",
                "cluster.state_dir": f"{made.folder}/@NAME@",
            }
            write_settings(made.folder / "worker.toml", {**common, **own})
            cluster.environment = made.environment
            cluster.start()
            cluster.wait_ready()
            token = tmp_path / "growth.token"
            token.write_text(cluster.client.profile.token or "")
            token.chmod(0o600)
            hook.write_text(
                f'url = "{cluster.url}"\ntoken_file = "{token}"\nstart = ["{made.folder}/start"]\n'
                f'stop = ["{made.folder}/stop"]\ntasks_per_machine = 4\nprefix = "grown-"\n'
                f'state_file = "{tmp_path}/growth.json"\njoin_s = 120\n'
            )
            tasks = [scripted_task(f"t{i}", run_s=1.0, resources={"cpus": 1, "memory": "1GiB"}) for i in range(TASKS)]
            job_id = cluster.client.submit(a_job(*tasks))["id"]
            try:
                job = cluster.client.wait(job_id, timeout_s=180)
                soon(lambda: len(made.lines("stopped")) >= MOST - 1, within_s=120, every_s=0.5, what="machines leave")
                soon(lambda: len(cluster.client.nodes()) == 1, within_s=60, every_s=0.5, what="one machine is left")
            except BaseException:
                print(cluster.log("task_manager")[-6000:])
                for log in made.folder.glob("*.log"):
                    print(log.name, log.read_text()[-1500:])
                raise
            assert job["state"] == "SUCCEEDED"
            assert [len(task["attempts"]) for task in cluster.client.job(job_id)["tasks"]] == [1] * TASKS
            assert set(made.lines("started")) == {f"grown-{i + 1}" for i in range(MOST)}
