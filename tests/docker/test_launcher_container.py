"""The launcher as process 1 of real containers: any image, any user, and an end record whatever happens."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from tests.support import images
from tests.support.dockerd import Engine
from tests.support.images import BUSYBOX, STATIC, Entry
from tests.support.waiting import soon
from worker import box as boxes
from worker.box import Box, BoxEnd, EndRecord, LaunchSpec, StartStage, StopWord
from worker.launcher.build import build

pytestmark = pytest.mark.docker

CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "SETPCAP", "KILL"]
PLACE = "/headway-5f"
ACCOUNT = "20001:20002"
MIB = 1 << 20


@dataclass
class Attempt:
    """One container with the launcher in it, started as the Docker runtime starts it."""

    box: Box
    container: Container

    def end(self, within_s: float = 20) -> EndRecord:
        """Wait for the end record and for the container's end."""
        soon(self.box.end.exists, within_s=within_s, what=f"an end record; {self.box.launcher_log}")
        answer = self.container.wait(timeout=10)
        assert answer["StatusCode"] == 0, self.log()
        record = boxes.read_end(self.box)
        assert record is not None
        return record

    def started(self) -> Attempt:
        soon(self.box.started.exists, what=f"a start; {self.box.launcher_log}")
        return self

    def prints(self, text: bytes) -> Attempt:
        soon(lambda: self.box.stdout.exists() and text in self.out(), what=f"{text!r} in the output")
        return self

    def out(self) -> bytes:
        return self.box.stdout.read_bytes()

    def log(self) -> str:
        return self.box.launcher_log.read_text()


class Attempts:
    def __init__(self, client: docker.DockerClient, folder: Path) -> None:
        self.client, self.folder = client, folder
        self._count = 0

    def __call__(
        self,
        *args: str,
        image: str = BUSYBOX,
        env: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> Attempt:
        """Run `args`. Other keywords are fields of LaunchSpec; `options` go to the engine."""
        self._count += 1
        box = boxes.create(self.folder / f"box{self._count}", launcher=build(), command="true\n")
        base = LaunchSpec(
            args=args,
            env={"PATH": "/bin:/usr/bin"} if env is None else env,
            user=ACCOUNT,
            timeout_ms=30_000,
            grace_ms=2_000,
            passwd_line="ada:x:20001:20002:Ada:/root:/bin/sh",
            group_line="ada:x:20002:",
        )
        boxes.write_spec(box, replace(base, **spec))
        boxes.write_lease(box, None)
        boxes.write_ticket(box, attempt=box.root.name, boot_id=boxes.boot_id())
        settings: dict[str, Any] = {
            "entrypoint": [f"{PLACE}/launcher", PLACE, boxes.spec_digest(boxes.spec_bytes(box))],
            "user": "0:0",
            "working_dir": "/",
            "volumes": {str(box.root): {"bind": PLACE, "mode": "rw"}},
            "cap_drop": ["ALL"],
            "cap_add": CAPABILITIES,
            "security_opt": ["no-new-privileges"],
            "network_mode": "none",
            "log_config": docker.types.LogConfig(type="none"),
            "mem_limit": "64m",
            "memswap_limit": "64m",
            "pids_limit": 64,
        }
        container = self.client.containers.create(image, **{**settings, **(options or {})})
        container.start()
        return Attempt(box, container)

    def sh(self, script: str, **keywords: Any) -> Attempt:
        return self("/bin/sh", "-c", script, **keywords)


@pytest.fixture
def attempt(docker_client: docker.DockerClient) -> Iterator[Attempts]:
    # Not pytest's own folder: the container's user has to enter the box.
    with tempfile.TemporaryDirectory(prefix="hwbox") as folder:
        yield Attempts(docker_client, Path(folder))
        for container in docker_client.containers.list(all=True):
            container.remove(force=True)


# --- any image ------------------------------------------------------------------------------------------


def test_an_image_from_scratch_runs(attempt: Attempts) -> None:
    run = attempt("/static", "id", image=STATIC)
    assert run.end().exit_code == 0
    assert run.out() == b"20001:20002\n"
    assert attempt("/static", "write", "/root/here", image=STATIC).end().exit_code == 0
    assert attempt("/static", "exit", "137", image=STATIC).end().exit_code == 137


def test_the_account_is_somebody_and_has_a_root_folder(attempt: Attempts) -> None:
    run = attempt.sh("whoami; id -g -n; cat /root/from-image; cp /bin/busybox /root/; /root/busybox echo runs; pwd")
    assert run.end().exit_code == 0, run.box.stderr.read_text()
    assert run.out() == b"ada\nada\nkept\nruns\n/\n"


@pytest.mark.parametrize(
    ("user", "want"), [("app", "1000 1000 44"), ("app:video", "1000 44"), ("", "0 0"), ("4711", "4711 0")]
)
def test_the_images_user_is_resolved_in_the_image(attempt: Attempts, user: str, want: str) -> None:
    run = attempt("cat", "/proc/self/status", user=user, passwd_line=None, group_line=None)
    assert run.end().exit_code == 0
    fields = {line.split(":")[0]: line.split(":")[1].split() for line in run.out().decode().splitlines()}
    assert [fields["Uid"][0], fields["Gid"][0], *fields["Groups"]] == want.split()
    powers = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    assert {fields[key][0] for key in powers} == {"0" * 16}
    assert fields["NoNewPrivs"] == ["1"]


def test_an_unknown_user_is_told(attempt: Attempts) -> None:
    for image in (BUSYBOX, STATIC):
        end = attempt("/static", image=image, user="ghost").end()
        assert (end.reason, end.stage, end.errno) == (BoxEnd.START_FAILED, StartStage.USER, "ENOENT")


def test_working_folders(attempt: Attempts) -> None:
    run = attempt.sh("pwd; touch mine", workdir="/srv/deep/er")
    assert run.end().exit_code == 0
    assert run.out() == b"/srv/deep/er\n"
    run = attempt("/static", "write", "here", image=STATIC, workdir="/work/not there\nyet")
    assert run.end().exit_code == 0
    end = attempt.sh("true", workdir="/etc/passwd").end()
    assert (end.reason, end.stage, end.errno) == (BoxEnd.START_FAILED, StartStage.WORKDIR, "ENOTDIR")


def test_a_missing_shell_and_a_missing_program_are_told(attempt: Attempts) -> None:
    end = attempt("/bin/sh", "-e", f"{PLACE}/attempt/command", image=STATIC).end()
    assert (end.reason, end.stage, end.errno) == (BoxEnd.START_FAILED, StartStage.EXEC, "ENOENT")
    assert (end.exit_code, end.signal, end.started_wall_ns) == (None, None, None)
    end = attempt("pyhton3").end()
    assert (end.stage, end.errno) == (StartStage.EXEC, "ENOENT")
    assert "pyhton3" in (end.error or "")


def test_a_hostile_image_does_not_lead_the_launcher(attempt: Attempts) -> None:
    name = images.import_busybox(
        attempt.client,
        "headway-test/hostile:1",
        more=[Entry("evil", mode=0o777), Entry("evil.so", b"\x7fELF")],
        changes=['CMD ["/evil"]'],
        environment={"HEADWAY_BOX": "/evil", "HEADWAY_ROOT": "/evil", "LD_PRELOAD": "/evil.so", "PATH": "/evil"},
    )
    run = attempt.sh(f"env; cat {PLACE}/attempt/command; ls {PLACE}/run", image=name)
    end = run.end()
    assert end.reason is BoxEnd.EXITED
    lines = run.out().decode().splitlines()
    assert "true" in lines
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert names - {"PWD", "SHLVL", "OLDPWD"} == {"PATH"}
    assert b"denied" in run.box.stderr.read_bytes()


# --- ends ---------------------------------------------------------------------------------------------------


def test_nothing_is_left_of_a_container(attempt: Attempts) -> None:
    run = attempt.sh("trap '' TERM; (setsid sleep 300 &) ; sleep 300 & echo up; sleep 0.1; exit 4")
    assert run.end().exit_code == 4


def test_a_process_brought_by_exec_does_not_hold_the_end(attempt: Attempts) -> None:
    run = attempt.sh("echo up; sleep 0.6; exit 0").prints(b"up")
    run.container.exec_run(["sh", "-c", "trap '' TERM; sleep 300"], detach=True)
    assert run.end().exit_code == 0


def test_a_timeout_lets_the_program_say_goodbye_and_ends_the_rest(attempt: Attempts) -> None:
    run = attempt.sh(
        "trap 'echo bye; exit 0' TERM; (trap '' TERM; while :; do sleep 0.1; done) & echo up; sleep 300 & wait",
        timeout_ms=500,
        grace_ms=700,
    )
    end = run.end()
    assert (end.reason, end.exit_code, end.signal) == (BoxEnd.TIMED_OUT, 0, None)
    assert run.out() == b"up\nbye\n"


def test_orders_from_outside_reach_the_container(attempt: Attempts) -> None:
    run = attempt.sh("echo up; sleep 300", timeout_ms=2_000)
    boxes.write_limits(run.box, timeout_ms=60_000)
    run.prints(b"up")
    time.sleep(2.2)
    assert not run.box.end.exists()
    boxes.write_stop(run.box, StopWord.CANCELLED)
    end = run.end()
    assert (end.reason, end.stop_word, end.signal) == (BoxEnd.STOPPED, StopWord.CANCELLED, signal.SIGTERM)


def test_a_shell_stands_still_while_its_program_saves(attempt: Attempts) -> None:
    run = attempt.sh(
        """sh -c "trap 'sleep 0.2; echo saved; exit' TERM; echo up; while :; do sleep 0.05; done" | cat && echo after"""
    ).prints(b"up")
    boxes.write_stop(run.box, StopWord.CANCELLED)
    assert run.end().signal == signal.SIGTERM
    assert run.out() == b"up\nsaved\n"


def test_a_fork_bomb_is_ended(attempt: Attempts) -> None:
    run = attempt.sh("trap '' TERM; bomb() { bomb | bomb & bomb; }; bomb 2>/dev/null", timeout_ms=700, grace_ms=200)
    end = run.end(10)
    assert end.reason in (BoxEnd.TIMED_OUT, BoxEnd.EXITED)
    run = attempt.sh("while :; do (trap '' TERM; while :; do sleep 0.1; done) & done 2>/dev/null", timeout_ms=500)
    assert run.end(10).reason in (BoxEnd.TIMED_OUT, BoxEnd.EXITED)


def test_the_engines_stop_is_told_apart(attempt: Attempts) -> None:
    run = attempt.sh("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done").prints(b"up")
    run.container.stop(timeout=5)
    end = run.end()
    assert (end.reason, end.stop_word, end.exit_code) == (BoxEnd.STOPPED, StopWord.KILLED_OUTSIDE, 3)
    assert run.out() == b"up\nbye\n"


def test_a_kill_from_outside_leaves_no_end_and_no_second_run(attempt: Attempts) -> None:
    run = attempt.sh("echo up; sleep 300").prints(b"up")
    run.container.kill()
    assert run.container.wait(timeout=10)["StatusCode"] == 137
    assert boxes.read_started(run.box) is not None
    assert boxes.read_end(run.box) is None
    run.container.start()
    assert run.container.wait(timeout=10)["StatusCode"] == 125
    assert run.out() == b"up\n"


def test_a_program_cannot_end_or_fool_the_launcher(attempt: Attempts) -> None:
    run = attempt.sh(
        f"kill -TERM 1; kill -KILL 1; kill -STOP 1; cat /proc/1/environ; cat {PLACE}/run/spec; "
        f"echo reason=exited > {PLACE}/run/end; mv {PLACE}/run {PLACE}/gone; sleep 0.3; exit 6",
        user="0:0",
    )
    end = run.end()
    assert (end.reason, end.exit_code, run.out()) == (BoxEnd.EXITED, 6, b"")


@pytest.mark.slow
def test_the_timeout_holds_without_the_engine(attempt: Attempts, docker_engine: Engine) -> None:
    run = attempt.sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done", timeout_ms=3_000)
    run.prints(b"up")
    docker_engine.kill9()
    try:
        soon(run.box.end.exists, within_s=10)
        end = boxes.read_end(run.box)
        assert end is not None
        assert (end.reason, end.exit_code, run.out()) == (BoxEnd.TIMED_OUT, 0, b"up\nbye\n")
        assert end.run_ns >= 3e9
    finally:
        docker_engine.start()


# --- memory ---------------------------------------------------------------------------------------------------


def test_an_out_of_memory_kill_is_counted(attempt: Attempts) -> None:
    run = attempt.sh("exec tail /dev/zero")
    end = run.end()
    assert (end.reason, end.exit_code, end.signal) == (BoxEnd.EXITED, None, signal.SIGKILL)
    assert end.oom_kills >= 1
    assert (end.peak_memory_bytes or 0) > 50 * MIB


def test_an_out_of_memory_kill_of_a_child_is_counted_though_all_ended_well(attempt: Attempts) -> None:
    run = attempt.sh("tail /dev/zero; echo went on; exit 0")
    end = run.end()
    assert (end.reason, end.exit_code, run.out()) == (BoxEnd.EXITED, 0, b"went on\n")
    assert end.oom_kills == 1


def test_the_peak_is_the_containers_own(attempt: Attempts) -> None:
    small = attempt.sh("true").end()
    large = attempt.sh("dd if=/dev/zero of=/dev/null bs=30M count=1").end()
    assert small.oom_kills == large.oom_kills == 0
    assert 0 < (small.peak_memory_bytes or 0) < 20 * MIB
    assert 30 * MIB < (large.peak_memory_bytes or 0) <= 64 * MIB


def test_much_output_fits_in_little_memory(attempt: Attempts) -> None:
    run = attempt.sh("dd if=/dev/zero bs=1M count=200", options={"mem_limit": "16m", "memswap_limit": "16m"})
    end = run.end(30)
    assert (end.exit_code, end.oom_kills, end.stdout_bytes) == (0, 0, 200 * MIB)


def test_many_short_attempts_lose_no_last_line(attempt: Attempts) -> None:
    runs = [attempt.sh(f"seq 50; echo error {n} >&2; exit {n}") for n in range(12)]
    for n, run in enumerate(runs):
        end = run.end()
        assert end.exit_code == n
        assert run.out().endswith(b"\n50\n")
        assert run.box.stderr.read_bytes() == b"error %d\n" % n
