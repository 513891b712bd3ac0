"""Every way in which an attempt can end, with real processes and short times."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.unit.worker.launcher.runs import Runs, user_namespace
from worker import box as boxes
from worker.box import BoxEnd, StartStage, StopWord, boottime_ns

SECOND = 10**9


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


# --- by itself ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 42, 127, 137, 255])
def test_an_exit_code_is_told_as_it_was(launch: Runs, code: int) -> None:
    before = time.time_ns()
    run = launch.sh(f"exit {code}")
    end = run.end()
    assert (end.reason, end.exit_code, end.signal) == (BoxEnd.EXITED, code, None)
    started = boxes.read_started(run.box)
    assert started is not None
    assert started.wall_ns == end.started_wall_ns
    assert before <= started.wall_ns <= end.ended_wall_ns <= time.time_ns()
    assert 0 < end.run_ns <= end.ended_wall_ns - before
    assert end.peak_memory_bytes is not None
    assert end.peak_memory_bytes > 0
    assert (end.errno, end.error, end.stage, end.stop_word) == (None, None, None, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_is_no_exit_code(launch: Runs, number: signal.Signals) -> None:
    end = launch.sh(f"kill -{number} $$").end()
    assert (end.reason, end.exit_code, end.signal) == (BoxEnd.EXITED, None, int(number))


def test_background_children_do_not_outlive_the_program(launch: Runs) -> None:
    run = launch.sh("sleep 60 & echo $!; trap '' TERM; sleep 61 & echo $!; exit 3")
    end = run.end()
    assert end.exit_code == 3
    assert [pid for pid in map(int, run.out().split()) if alive(pid)] == []


def test_a_daemon_that_left_its_session_is_gone_too(launch: Runs) -> None:
    run = launch.py(
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"
        "        os.close(1)\n"
        "        time.sleep(60)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "time.sleep(0.2)\n"
    )
    assert run.end().exit_code == 0
    assert not alive(int(run.out()))


def test_a_program_that_closed_its_output_goes_on(launch: Runs) -> None:
    run = launch.sh("echo before; exec >&- 2>&-; sleep 0.3; exit 7")
    end = run.end()
    assert (end.exit_code, run.out()) == (7, b"before\n")
    assert end.run_ns >= 0.3 * SECOND


def test_an_attempt_runs_once_even_if_the_engine_starts_it_again(launch: Runs) -> None:
    run = launch.sh("echo once")
    run.end()
    again = launch.launch(run.box)
    assert again.process.wait(5) == 125
    assert run.out() == b"once\n"
    assert "not run again" in run.log()


# --- never started ----------------------------------------------------------------------------------------


def test_a_missing_program_is_told_with_its_name(launch: Runs) -> None:
    run = launch("no-such-program", "x")
    end = run.end()
    assert (end.reason, end.stage, end.errno) == (BoxEnd.START_FAILED, StartStage.EXEC, "ENOENT")
    assert end.error is not None
    assert "no-such-program" in end.error
    assert PATH_WORDS in end.error
    assert (end.exit_code, end.signal, end.started_wall_ns, end.run_ns) == (None, None, None, 0)
    assert boxes.read_started(run.box) is None


PATH_WORDS = "in the PATH /usr/local/bin"


@pytest.mark.parametrize(
    ("make", "want_errno", "want_words"),
    [
        (lambda p: p.write_text("#!/no/such/interpreter\n"), "ENOENT", "interpreter"),
        (lambda p: p.write_bytes(b"#!/bin/sh\r\necho\r\n"), "ENOENT", "interpreter"),
        (lambda p: p.write_bytes(b"\x7fELFnonsense"), "ENOEXEC", "xec format"),
        (lambda p: p.mkdir(), "EACCES", "denied"),
    ],
)
def test_a_program_that_cannot_run_is_told_why(
    launch: Runs, tmp_path: Path, make: object, want_errno: str, want_words: str
) -> None:
    program = tmp_path / "program"
    make(program)  # type: ignore[operator]
    program.chmod(0o755)
    end = launch(str(program)).end()
    assert (end.reason, end.stage, end.errno) == (BoxEnd.START_FAILED, StartStage.EXEC, want_errno)
    assert end.error is not None
    assert want_words in end.error


def test_a_working_folder_that_is_a_file_is_told(launch: Runs, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for workdir in (tmp_path / "file", tmp_path / "file" / "below"):
        end = launch.sh("true", workdir=str(workdir)).end()
        assert (end.reason, end.stage, end.errno) == (BoxEnd.START_FAILED, StartStage.WORKDIR, "ENOTDIR")
        assert end.error == f"{tmp_path}/file is a file there"
    (tmp_path / "ring").symlink_to("ring")
    end = launch.sh("true", workdir=str(tmp_path / "ring" / "below")).end()
    assert (end.stage, end.error) == (StartStage.WORKDIR, f"the links at {tmp_path}/ring form a ring")


def test_a_missing_user_is_told(launch: Runs, tmp_path: Path) -> None:
    end = launch.sh("true", user="nobody-here", launcher_env={"HEADWAY_ROOT": str(tmp_path)}).end()
    assert (end.reason, end.stage, end.errno) == (BoxEnd.START_FAILED, StartStage.USER, "ENOENT")
    assert end.error is not None
    assert "nobody-here" in end.error


def test_a_broken_spec_is_told(launch: Runs) -> None:
    box = launch.prepare(["true"])
    box.spec.write_bytes(box.spec.read_bytes().replace(b"timeout_ms=20000", b"timeout_ms=soon"))
    run = launch.launch(box)
    run.process.wait(5)
    end = boxes.read_end(box)
    assert end is not None
    assert (end.reason, end.stage, end.errno) == (BoxEnd.START_FAILED, StartStage.SETUP, "EINVAL")
    assert end.error is not None
    assert "timeout_ms" in end.error


# --- timeout ------------------------------------------------------------------------------------------------


def test_a_timeout_lets_the_program_say_goodbye(launch: Runs) -> None:
    run = launch.sh("trap 'echo bye; exit 5' TERM; echo up; sleep 30 & wait", timeout_ms=400)
    end = run.end()
    assert (end.reason, end.exit_code, end.signal) == (BoxEnd.TIMED_OUT, 5, None)
    assert run.out() == b"up\nbye\n"
    assert 0.4 * SECOND <= end.run_ns < 30 * SECOND


def test_who_ignores_the_term_is_killed_after_the_grace(launch: Runs) -> None:
    run = launch.sh("trap '' TERM; echo up; while :; do sleep 0.05; done", timeout_ms=300, grace_ms=400)
    end = run.end()
    assert (end.reason, end.exit_code, end.signal) == (BoxEnd.TIMED_OUT, None, signal.SIGKILL)
    assert end.run_ns >= 0.7 * SECOND


def test_children_get_the_term_and_the_rest_of_the_grace(launch: Runs) -> None:
    run = launch.sh(
        "sh -c 'trap \"sleep 0.3; echo child; exit\" TERM; echo up; while :; do sleep 0.02; done' & wait",
        timeout_ms=300,
    )
    end = run.end()
    assert end.reason is BoxEnd.TIMED_OUT
    assert run.out() == b"up\nchild\n"


def test_a_stopped_program_is_ended_too(launch: Runs) -> None:
    end = launch.sh("kill -STOP $$; sleep 30", timeout_ms=300).end()
    assert (end.reason, end.signal) == (BoxEnd.TIMED_OUT, signal.SIGTERM)
    assert end.run_ns < 30 * SECOND


def test_more_time_moves_the_deadline(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo up; sleep 2.3; echo done"], timeout_ms=2_000)
    run = launch.launch(box)
    run.wait_for_output(b"up")
    first = boxes.read_deadline(box)
    boxes.write_limits(box, timeout_ms=60_000)
    run.wait_until(lambda: boxes.read_deadline(box) != first)
    second = boxes.read_deadline(box)
    end = run.end()
    assert (end.reason, end.exit_code, run.out()) == (BoxEnd.EXITED, 0, b"up\ndone\n")
    assert (boxes.read_taken(box), end.timeout_ms) == (60_000, 60_000)
    assert end.started_wall_ns is not None
    assert first is not None
    assert second is not None
    assert abs(first - (end.started_wall_ns / SECOND + 2)) < 2
    assert abs(second - (end.started_wall_ns / SECOND + 60)) < 3


def test_more_time_is_confirmed_and_its_file_kept_current_however_little_it_is(launch: Runs) -> None:
    run = launch.sh("echo up; sleep 30", timeout_ms=20_000)
    run.wait_for_output(b"up")
    assert boxes.read_taken(run.box) is None
    first = boxes.read_deadline(run.box)
    assert first is not None
    boxes.write_limits(run.box, timeout_ms=21_500)
    run.wait_until(lambda: boxes.read_taken(run.box) == 21_500)
    second = boxes.read_deadline(run.box)
    assert second is not None
    assert second - first in (1, 2)


def test_time_that_comes_too_late_changes_nothing_and_is_not_confirmed(launch: Runs) -> None:
    run = launch.sh("trap 'echo bye' TERM; echo up; while :; do sleep 0.05; done", timeout_ms=300, grace_ms=1_500)
    run.wait_for_output(b"bye")
    boxes.write_limits(run.box, timeout_ms=60_000)
    end = run.end()
    assert (end.reason, end.timeout_ms, boxes.read_taken(run.box)) == (BoxEnd.TIMED_OUT, 300, None)
    assert end.run_ns < 60 * SECOND


def test_less_time_than_has_passed_ends_at_once(launch: Runs) -> None:
    run = launch.sh("echo up; sleep 30")
    run.wait_for_output(b"up")
    boxes.write_limits(run.box, timeout_ms=1)
    assert run.end().reason is BoxEnd.TIMED_OUT


# --- lease ----------------------------------------------------------------------------------------------------


def test_an_attempt_ends_with_its_lease(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"], lease_grace_ms=200)
    boxes.write_lease(box, boottime_ns() + 2 * SECOND)
    end = launch.launch(box).end()
    assert (end.reason, end.signal) == (BoxEnd.LEASE_EXPIRED, signal.SIGKILL)


def test_a_renewed_lease_lets_it_live(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo up; sleep 2.3"])
    boxes.write_lease(box, boottime_ns() + 2 * SECOND)
    run = launch.launch(box)
    run.wait_for_output(b"up")
    boxes.write_lease(box, boottime_ns() + 30 * SECOND)
    assert run.end().reason is BoxEnd.EXITED


def test_a_lease_without_sense_changes_nothing(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo up; sleep 0.5"])
    boxes.write_lease(box, boottime_ns() + 30 * SECOND)
    run = launch.launch(box)
    run.wait_for_output(b"up")
    boxes.write_atomic(box.lease, b"")
    boxes.write_atomic(box.lease, b"-5\n")
    box.lease.unlink()
    assert run.end().reason is BoxEnd.EXITED


def test_a_lease_that_is_over_before_the_start_starts_nothing(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo ran"])
    boxes.write_lease(box, 1)
    run = launch.launch(box)
    end = run.end()
    assert (end.reason, end.started_wall_ns, run.out()) == (BoxEnd.LEASE_EXPIRED, None, b"")


# --- stop -------------------------------------------------------------------------------------------------------


def test_a_stop_order_works_at_once_and_keeps_its_word(launch: Runs) -> None:
    """An order that no file event told of would be found at the launcher's look around, up to five seconds later."""
    took_s: list[float] = []
    while not took_s or (took_s[-1] >= 1 and len(took_s) < 5):
        run = launch.sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done")
        run.wait_for_output(b"up")
        before = time.monotonic()
        boxes.write_stop(run.box, StopWord.CANCELLED)
        end = run.end()
        took_s.append(time.monotonic() - before)
        assert (end.reason, end.stop_word, end.exit_code) == (BoxEnd.STOPPED, StopWord.CANCELLED, 0)
        assert run.out() == b"up\nbye\n"
    assert min(took_s) < 1, "the machine may be busy, but not each time"


def test_a_stop_order_before_the_start_starts_nothing(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo ran"])
    boxes.write_stop(box, StopWord.SUPERSEDED)
    run = launch.launch(box)
    end = run.end()
    assert (end.reason, end.stop_word, end.exit_code) == (BoxEnd.STOPPED, StopWord.SUPERSEDED, None)
    assert run.out() == b""
    assert boxes.read_started(box) is None


def test_a_second_order_can_only_shorten_the_grace(launch: Runs) -> None:
    run = launch.sh("trap 'echo term' TERM; echo up; while :; do sleep 0.02; done", grace_ms=60_000)
    run.wait_for_output(b"up")
    boxes.write_stop(run.box, StopWord.CANCELLED)
    run.wait_for_output(b"term")
    boxes.write_stop(run.box, StopWord.SHUTDOWN, grace_ms=0)
    end = run.end()
    assert (end.reason, end.stop_word, end.signal) == (BoxEnd.STOPPED, StopWord.CANCELLED, signal.SIGKILL)
    assert run.out().count(b"term") == 1


def test_the_engines_own_stop_is_told_as_such(launch: Runs) -> None:
    run = launch.sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done")
    run.wait_for_output(b"up")
    run.process.send_signal(signal.SIGTERM)
    end = run.end()
    assert (end.reason, end.stop_word, end.exit_code) == (BoxEnd.STOPPED, StopWord.KILLED_OUTSIDE, 0)


def test_a_program_that_ends_by_itself_before_the_order_ended_by_itself(launch: Runs) -> None:
    run = launch.sh("echo up; exit 0")
    run.wait_until(lambda: run.box.end.exists())
    boxes.write_stop(run.box, StopWord.CANCELLED)
    assert run.end().reason is BoxEnd.EXITED


@pytest.mark.root
def test_orders_are_found_without_file_events(launch: Runs) -> None:
    """Every user has a limited number of inotify instances; the last attempt on a full machine has none."""
    box = launch.prepare(["/bin/sh", "-c", "echo up; sleep 30"])
    with user_namespace() as enter:
        limit = "echo 0 > /proc/sys/user/max_inotify_instances"
        run = launch.launch(box, prefix=[*enter, "sh", "-c", f'{limit}; exec "$@"', "sh"])
        run.wait_for_output(b"up")
        assert "every second" in run.log()
        boxes.write_stop(box, StopWord.CANCELLED)
        assert run.end().reason is BoxEnd.STOPPED


# --- what the cgroup tells ------------------------------------------------------------------------------------

V1 = {"memory/memory.max_usage_in_bytes": "7340032\n", "memory/memory.oom_control": "under_oom 0\noom_kill {}\n"}
V2 = {"memory.peak": "9437184\n", "memory.events": "low 0\noom 7\noom_kill {}\noom_group_kill 5\n"}


@pytest.mark.parametrize(("files", "want_peak"), [(V1, 7340032), (V2, 9437184)])
def test_memory_is_read_from_either_kind_of_cgroup(
    launch: Runs, tmp_path: Path, files: dict[str, str], want_peak: int
) -> None:
    def write(kills: int) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text.format(kills))

    write(3)
    run = launch.sh("echo up; sleep 0.2", launcher_env={"HEADWAY_CGROUP": str(tmp_path)})
    run.wait_for_output(b"up")
    write(5)
    end = run.end()
    assert (end.peak_memory_bytes, end.oom_kills) == (want_peak, 2)


def test_without_a_cgroup_the_largest_process_is_told(launch: Runs) -> None:
    end = launch.py("b = b'x' * (60 << 20)").end()
    assert end.peak_memory_bytes is not None
    assert 60 << 20 < end.peak_memory_bytes < 200 << 20
    assert end.oom_kills == 0
