"""People's own processes hold GPUs: in the queue like jobs, never two on one GPU, freed with the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, a_cluster, a_job, first_state, scripted_task
from tests.support.waiting import soon

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"worker__simulated_gpus": 2, "worker__simulated_gpu_model": "A100", "worker__cpus": 4}
    with a_cluster(tmp_path_factory.mktemp("gpus"), **settings) as made:
        yield made


@pytest.fixture(autouse=True)
def all_runs(cluster: Cluster) -> None:
    """Whatever the test before has killed."""
    cluster.start()
    cluster.wait_ready()
    soon(lambda: not held(cluster), within_s=60, what="all GPUs are free")


def environ(cluster: Cluster) -> dict[str, str]:
    return {**cluster.environ(), "HEADWAY_GPU_SOCKET": str(cluster.gpu_socket("n1")), "PYTHONUNBUFFERED": "1"}


def gpu_run(cluster: Cluster, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "headway", "gpu", "run", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ(cluster),
        **options,
    )


def ended(process: subprocess.Popen[bytes], within_s: float = 30) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=within_s)
    return process.returncode, out.decode(), errors.decode()


def held(cluster: Cluster) -> dict[str, str]:
    """The jobs that hold a GPU, by its UUID."""
    found = cluster.client.node_list()["nodes"][0]["gpus"]
    return {gpu["uuid"]: gpu["booking"]["job_id"] for gpu in found if gpu.get("booking")}


def uuids(cluster: Cluster) -> list[str]:
    return [str(gpu["uuid"]) for gpu in cluster.client.node_list()["nodes"][0]["gpus"]]


def test_a_program_sees_its_gpus_and_its_code_comes_back(cluster: Cluster):
    script = "echo $CUDA_VISIBLE_DEVICES/$HEADWAY_GPUS; exit 7"
    code, out, errors = ended(gpu_run(cluster, "--timeout", "5m", "--model", "A100", "--", "sh", "-c", script))
    assert (code, errors) == (7, "")
    shown, _, count = out.strip().partition("/")
    assert shown in uuids(cluster)
    assert count == "1"
    job = next(cluster.client.jobs())
    done = cluster.client.wait(job["id"], timeout_s=10)
    attempt = done["tasks"][0]["attempts"][0]
    assert (attempt["reason"]["word"], attempt["reason"]["exit_code"]) == ("exited", 7)
    assert attempt["gpu_uuids"] == [shown]
    shown_spec = cluster.headway("show", f"{job['id']}/gpus").stdout.decode()
    assert "runs: on the machine itself" in shown_spec
    for action in ("retry", "clone"):
        refused = cluster.headway(action, job["id"])
        assert refused.returncode == 4
        assert b"start it there again with `headway gpu run`" in refused.stderr


def test_two_clients_and_a_job_never_share_a_gpu(cluster: Cluster, tmp_path: Path):
    log = tmp_path / "log"
    script = f'echo "+ $CUDA_VISIBLE_DEVICES" >> {log}; sleep 0.5; echo "- $CUDA_VISIBLE_DEVICES" >> {log}'
    task = scripted_task("j", run_s=1.0, resources={"cpus": 0.1, "memory": "16MiB", "gpus": 2})
    job = cluster.client.submit(a_job(task))["id"]
    runs = [gpu_run(cluster, "--timeout", "60s", "--", "sh", "-c", script) for _ in range(5)]
    assert [ended(run, 60)[0] for run in runs] == [0] * 5
    assert cluster.client.wait(job, timeout_s=60)["state"] == "SUCCEEDED"
    now: set[str] = set()
    for line in log.read_text().splitlines():
        sign, uuid = line.split()
        assert (uuid in now) == (sign == "-"), log.read_text()
        now ^= {uuid}


def test_named_gpus_are_waited_for(cluster: Cluster):
    first, second = uuids(cluster)
    one = gpu_run(cluster, "--ids", first, "--timeout", "60s", "--", "sleep", "4")
    soon(lambda: set(held(cluster)) == {first})
    two = gpu_run(cluster, "--ids", "0", "--timeout", "60s", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    other = ended(gpu_run(cluster, "--timeout", "60s", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"))
    assert other[1].strip() == second
    code, out, errors = ended(two)
    assert (code, out.strip()) == (0, first)
    assert "which is in use" in errors
    assert ended(one)[0] == 0


def test_a_killed_client_frees_its_gpus_and_its_program_ends(cluster: Cluster):
    program = gpu_run(cluster, "--timeout", "60s", "--", "sh", "-c", "sh -c 'echo $$; sleep 300' & sleep 300")
    assert program.stdout is not None
    inner = int(program.stdout.readline())
    assert held(cluster)
    program.send_signal(signal.SIGKILL)
    soon(lambda: not held(cluster), within_s=10)
    assert not Path(f"/proc/{inner}").exists() or "Z" in Path(f"/proc/{inner}/stat").read_text()
    program.communicate(timeout=30)
    job = str(next(cluster.client.jobs())["id"])
    task = cluster.client.job(job)["tasks"][0]
    assert task["reason"]["word"] == "killed_outside"
    assert len(task["attempts"]) == 1


def test_a_killed_client_that_waits_leaves_the_queue_and_one_that_lives_stays(cluster: Cluster):
    """It stayed queued, and at its turn its cards waited 15 s for nobody."""
    first = gpu_run(cluster, "--gpus", "2", "--timeout", "5m", "--", "sleep", "200")
    soon(lambda: len(held(cluster)) == 2, within_s=30)
    living = gpu_run(cluster, "--gpus", "2", "--timeout", "60s", "--name", "living", "--", "echo", "here")
    dead = gpu_run(cluster, "--gpus", "2", "--timeout", "60s", "--name", "dead", "--", "echo", "never")

    def states() -> dict[str, str]:
        return {job["name"]: job["state"] for job in cluster.client.jobs() if job["name"] in ("living", "dead")}

    soon(lambda: len(states()) == 2, within_s=30, what="both wait")
    cluster.restart("n1")  # all lines are closed, and nobody has died
    cluster.wait_ready()
    dead.send_signal(signal.SIGKILL)
    soon(lambda: states()["dead"] == "CANCELLED", within_s=90, what="the dead one has left the queue")
    assert len(held(cluster)) == 2, "it left before its turn"
    assert states()["living"] not in ("CANCELLED", "FAILED")
    (job,) = [job["id"] for job in cluster.client.jobs() if job["name"] == "dead"]
    assert "has ended, or was silent" in cluster.client.job(job)["tasks"][0]["reason"]["sentence"]
    first.send_signal(signal.SIGTERM)
    ended(first)
    assert ended(living, 60)[:2] == (0, "here\n")
    dead.communicate(timeout=30)


@pytest.mark.parametrize("victim", ["n1", "task_manager", "job_manager", "resource_manager", "httpserver"])
def test_a_hold_outlives_the_services(cluster: Cluster, victim: str):
    program = gpu_run(cluster, "--gpus", "2", "--timeout", "120s", "--", "sleep", "8")
    soon(lambda: len(held(cluster)) == 2)
    cluster.kill9(victim)
    time.sleep(1)
    cluster.start(victim)
    code, _, errors = ended(program, 60)
    assert (code, errors) == (0, "")
    cluster.wait_ready()
    job = str(next(cluster.client.jobs())["id"])
    done = cluster.client.wait(job, timeout_s=30)
    assert done["state"] == "SUCCEEDED"
    assert len(done["tasks"][0]["attempts"]) == 1


def test_killed_around_the_grant(cluster: Cluster, tmp_path: Path):
    """At any moment between the request and the first breath of the program."""
    for number, (victim, after_s) in enumerate(
        [("n1", 0.25), ("task_manager", 0.2), ("n1", 0.35), ("task_manager", 0.3), ("n1", 0.3), ("job_manager", 0.25)]
    ):
        log = tmp_path / f"{number}"
        script = f'echo "+ $CUDA_VISIBLE_DEVICES" >> {log}; sleep 1; echo "- $CUDA_VISIBLE_DEVICES" >> {log}'
        runs = [gpu_run(cluster, "--ids", "1", "--timeout", "60s", "--", "sh", "-c", script) for _ in range(2)]
        time.sleep(after_s)
        cluster.kill9(victim)
        time.sleep(0.3)
        cluster.start(victim)
        found = [ended(run, 60) for run in runs]
        assert [code for code, _, _ in found] == [0, 0], (victim, after_s, found)
        signs = [line[0] for line in log.read_text().splitlines()]
        assert signs == ["+", "-", "+", "-"], (victim, after_s, signs)


def test_killed_while_no_worker_looks(cluster: Cluster):
    program = gpu_run(cluster, "--gpus", "2", "--timeout", "120s", "--", "sh", "-c", "sleep 300 & sleep 300")
    soon(lambda: len(held(cluster)) == 2)
    cluster.kill9("n1")
    program.send_signal(signal.SIGKILL)
    program.wait(30)
    waiting = gpu_run(cluster, "--timeout", "60s", "--", "true")
    cluster.start("n1")
    cluster.wait_ready()
    soon(lambda: not held(cluster), within_s=30)
    program.communicate(timeout=30)  # until nothing of it holds its output any more
    ended(waiting)


def test_the_time_is_over(cluster: Cluster):
    began = time.monotonic()
    deaf = "trap '' TERM; sleep 300 & while true; do sleep 1; done"
    code, _, errors = ended(gpu_run(cluster, "--timeout", "2s", "--grace", "1s", "--", "sh", "-c", deaf))
    assert code == 137
    assert time.monotonic() - began < 12
    assert "Its time is over." in errors
    job = str(next(cluster.client.jobs())["id"])
    assert cluster.client.wait(job, timeout_s=10)["tasks"][0]["state"] == "TIMED_OUT"


def test_a_stopped_client_loses_its_gpus_at_its_timeout(cluster: Cluster):
    program = gpu_run(cluster, "--timeout", "3s", "--grace", "1s", "--", "sleep", "300")
    soon(lambda: bool(held(cluster)))
    program.send_signal(signal.SIGSTOP)
    soon(lambda: not held(cluster), within_s=15)
    assert program.wait(5) == -signal.SIGKILL
    program.communicate(timeout=30)


def test_a_cancel_ends_the_program(cluster: Cluster):
    program = gpu_run(cluster, "--timeout", "60s", "--", "sleep", "300")
    soon(lambda: bool(held(cluster)))
    job = next(iter(held(cluster).values()))
    soon(lambda: first_state(cluster.client, job) == "RUNNING")
    cluster.client.act("cancel", job)
    code, _, errors = ended(program)
    assert code == 143
    assert "It was cancelled." in errors


def test_an_interrupt_withdraws_the_request(cluster: Cluster):
    holder = gpu_run(cluster, "--gpus", "2", "--timeout", "60s", "--", "sleep", "300")
    soon(lambda: len(held(cluster)) == 2)
    waiting = gpu_run(cluster, "--timeout", "60s", "--", "true")
    assert waiting.stderr is not None
    line = waiting.stderr.readline().decode()
    assert line.startswith("headway: Waiting for GPUs (")
    job = line.partition("(")[2].partition(")")[0]
    waiting.send_signal(signal.SIGINT)
    assert ended(waiting)[0] == 130
    assert first_state(cluster.client, job) == "CANCELLED"
    holder.send_signal(signal.SIGTERM)
    assert ended(holder)[0] == 143


def test_the_context_manager(cluster: Cluster):
    script = """
import os, headway
with headway.gpus(2, timeout="60s") as devices:
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ",".join(devices)
    print([(str(one), one.index, one.model) for one in devices])
assert "CUDA_VISIBLE_DEVICES" not in os.environ
try:
    with headway.gpus(timeout="60s", ids="1"):
        raise RuntimeError
except RuntimeError:
    print("raised")
for wrong in ({"count": "2"}, {"ids": [7]}, {"timeout": 60}, {"grace": 3}):
    try:
        with headway.gpus(**{"timeout": "60s", **wrong}):
            print("granted", wrong)
    except headway.errors.HeadwayError:
        pass
held = headway.gpus(timeout="60s", ids=[0])
with held:
    try:
        with held:
            print("granted twice")
    except headway.errors.HeadwayError:
        pass
with held as again:
    print(again[0].index)
import sys
print([name for name in ("httpx", "grpc", "headway.config") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", script], env=environ(cluster), capture_output=True, timeout=60)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.decode().splitlines()
    assert lines == [str([(u, i, "A100") for i, u in enumerate(uuids(cluster))]), "raised", "0", "[]"]
    soon(lambda: not held(cluster))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--", "true"], 2, "Say for how long"),
        (["--timeout", "soon", "--", "true"], 4, "The timeout 'soon' is not a duration"),
        (["--timeout", "2h"], 2, "Say what to run"),
        (["--timeout", "2h", "--gpus", "3", "--", "true"], 4, "n1 has 2 GPUs, and you ask for 3"),
        (["--timeout", "2h", "--model", "A10", "--", "true"], 4, "Did you mean A100?"),
        (["--timeout", "2h", "--ids", "GPU-nope", "--", "true"], 4, "n1 has no GPU 'GPU-nope'. The nearest is GPU-"),
        (["--timeout", "2h", "--gpus", "2", "--ids", "0", "--", "true"], 4, "leave out the number"),
        (["--timeout", "2h", "--node", "n7", "--", "true"], 4, "This machine is n1, and not n7"),
        (["--timeout", "2h", "--ids", "7", "--", "true"], 4, "n1 has no GPU '7'. It has GPU 0 to 1."),
        (["--timeout", "2h", "--ids", "0", "--model", "H100", "--", "true"], 4, "is A100, and you ask for H100"),
        (["--timeout", "2h", "--ids", " ,", "--", "true"], 4, "--ids names no GPU"),
        (["--timeout", "2h", "--model", "", "--", "true"], 4, "--model names no model"),
        (["--timeout", "2h", "--", "no-such-program"], 1, "there is no program"),
        (["--timeout", "2h", "--", ""], 1, "there is no program"),
        (["--timeout", "2h", "--", "/etc"], 1, "/etc is no program that you may run"),
    ],
)
def test_what_is_wrong_is_told_at_once(cluster: Cluster, arguments: list[str], code: int, words: str):
    found, out, errors = ended(gpu_run(cluster, *arguments))
    assert (found, out) == (code, "")
    assert words in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_what_it_is_told_to_ignore_ends_neither_it_nor_its_program(cluster: Cluster, number: signal.Signals):
    """As under `nohup`, and as a shell script starts what it puts in the background."""
    ignoring = lambda: signal.signal(number, signal.SIG_IGN)  # noqa: E731
    program = gpu_run(
        cluster,
        "--timeout",
        "60s",
        "--",
        "sh",
        "-c",
        "echo on; sleep 3; echo end",
        preexec_fn=ignoring,
        process_group=0,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"on\n"
    os.killpg(program.pid, number)  # as a terminal does that is closed, or Ctrl-C
    assert ended(program) == (0, "end\n", "")


def test_without_an_account_or_a_worker(cluster: Cluster, tmp_path: Path):
    command = [sys.executable, "-m", "headway", "gpu", "run", "--timeout", "1m", "--", "true"]
    nobody = {**environ(cluster), "HEADWAY_TOKEN": "", "XDG_CONFIG_HOME": str(tmp_path)}
    run = subprocess.run(command, env=nobody, capture_output=True, timeout=30)
    assert run.returncode == 4
    assert b"headway login" in run.stderr
    nowhere = {**environ(cluster), "HEADWAY_GPU_SOCKET": str(tmp_path / "none")}
    run = subprocess.run(command, env=nowhere, capture_output=True, timeout=30)
    assert run.returncode == 3
    assert b"No worker of Headway answers on this machine" in run.stderr
    assert os.environ.get("CUDA_VISIBLE_DEVICES") is None
