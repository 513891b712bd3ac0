"""stdout and stderr arrive byte for byte, whatever a program does with them."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import subprocess
import time
from pathlib import Path

import pytest

from tests.unit.worker.launcher.runs import PYTHON, Runs
from worker import box as boxes
from worker.box import BoxEnd, IndexRecord, LogLimitAction, StopWord, Stream

MIB = 1 << 20


def check_index(records: list[IndexRecord], stream: Stream, size: int) -> None:
    """The records of a stream cover it without gap or overlap, in the order of time."""
    offset, last_ns = 0, 0
    for record in records:
        if record.stream is stream:
            assert record.offset == offset
            assert record.length > 0
            assert record.wall_ns >= last_ns
            offset, last_ns = offset + record.length, record.wall_ns
    assert offset == size


def test_binary_lines_of_a_megabyte_arrive_as_they_were(launch: Runs, tmp_path: Path) -> None:
    data = random.Random(5).randbytes(3 * MIB) + b"\n" + b"x" * MIB + b"\r\n" + bytes(range(256)) + b"no newline"
    (tmp_path / "data").write_bytes(data)
    run = launch.sh(f"cat {tmp_path}/data & cat {tmp_path}/data >&2; wait")
    end = run.end()
    assert end.exit_code == 0
    assert run.out() == data
    assert run.err() == data
    records = boxes.read_index(run.box)
    check_index(records, Stream.STDOUT, len(data))
    check_index(records, Stream.STDERR, len(data))


@pytest.mark.slow
def test_200_megabytes_pass_quickly_and_cost_little(launch: Runs) -> None:
    line = b"0123456789abcdef" * 64
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = launch.py(
        f"import os\nb = {line!r} * 1024\nn = 0\nwhile n < 200:\n    assert os.write(1, b) == len(b)\n    n += 1\n"
    )
    end = run.end(60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert end.exit_code == 0
    assert end.stdout_bytes == 200 * MIB
    digest = hashlib.sha256()
    with run.box.stdout.open("rb") as file:
        while block := file.read(MIB):
            digest.update(block)
    assert digest.digest() == hashlib.sha256(line * 1024 * 200).digest()
    check_index(boxes.read_index(run.box), Stream.STDOUT, 200 * MIB)
    # Program and launcher together; generous, for a slow machine.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 4


def test_what_comes_in_the_last_moment_is_there(launch: Runs) -> None:
    runs = [launch.sh(f"echo first; echo 'error {n}' >&2; exec head -c 100000 /dev/zero") for n in range(20)]
    for n, run in enumerate(runs):
        run.end()
        assert run.out() == b"first\n" + bytes(100000)
        assert run.err() == b"error %d\n" % n


def test_output_of_killed_children_is_there(launch: Runs) -> None:
    run = launch.sh("(echo child; sleep 60) & sleep 0.2; echo main")
    assert run.end().exit_code == 0
    assert run.out() == b"child\nmain\n"


def test_the_order_of_both_streams_is_kept_in_the_index(launch: Runs) -> None:
    run = launch.sh("for n in 1 2 3; do echo out$n; sleep 0.05; echo err$n >&2; sleep 0.05; done")
    run.end()
    records = boxes.read_index(run.box)
    assert [r.stream for r in records] == [Stream.STDOUT, Stream.STDERR] * 3
    assert records[-1].wall_ns - records[0].wall_ns > 200_000_000
    assert abs(records[-1].wall_ns - time.time_ns()) < 10 * 10**9


def test_streams_that_take_quick_turns_are_not_merged(launch: Runs) -> None:
    script = "import os, time\nfor n in range(6):\n    os.write(1 + n % 2, b'x')\n    time.sleep(0.008)\n"
    seen = []
    for _ in range(8):  # on a busy machine two turns can come in one read
        run = launch.py(script)
        run.end()
        seen.append([r.stream for r in boxes.read_index(run.box)])
        if seen[-1] == [Stream.STDOUT, Stream.STDERR] * 3:
            return
    raise AssertionError(seen)


def test_output_shows_up_while_the_program_runs(launch: Runs) -> None:
    run = launch.sh("printf ' 1%%\\r'; sleep 0.15; printf ' 2%%\\r'; sleep 30")
    run.wait_until(lambda: run.box.stdout.exists() and run.out() == b" 1%\r 2%\r", 3)
    run.wait_until(lambda: sum(r.length for r in boxes.read_index(run.box)) == 8, 1)
    boxes.write_stop(run.box, StopWord.CANCELLED, grace_ms=0)
    run.end()


def test_a_byte_at_a_time_does_not_swell_the_index(launch: Runs) -> None:
    run = launch.py("import os\nfor n in range(20000):\n    os.write(1, b'.')\n")
    run.end()
    assert run.out() == b"." * 20000
    assert run.box.index.stat().st_size < 20000


def test_past_the_log_limit_output_is_dropped_and_counted(launch: Runs) -> None:
    run = launch.py(
        "import os\nfor n in range(50):\n    os.write(1, b'o' * 50000)\n    os.write(2, b'e' * 10000)\n",
        log_limit_bytes=1_000_001,
    )
    end = run.end()
    assert (end.reason, end.exit_code) == (BoxEnd.EXITED, 0)
    assert end.stdout_bytes + end.stderr_bytes == 1_000_001
    assert end.stdout_bytes + end.stderr_bytes + end.dropped_bytes == 50 * 60000
    assert run.out() == b"o" * end.stdout_bytes
    assert run.err() == b"e" * end.stderr_bytes


def test_output_of_exactly_the_limit_is_complete(launch: Runs) -> None:
    run = launch.sh("head -c 5000 /dev/zero", log_limit_bytes=5000, log_limit_action=LogLimitAction.KILL)
    end = run.end()
    assert (end.reason, end.stdout_bytes, end.dropped_bytes) == (BoxEnd.EXITED, 5000, 0)


def test_the_log_limit_can_end_the_attempt(launch: Runs) -> None:
    run = launch.sh(
        "trap 'exit 9' TERM; while :; do echo yesyesyesyes; done",
        log_limit_bytes=300_000,
        log_limit_action=LogLimitAction.KILL,
    )
    end = run.end()
    assert (end.reason, end.exit_code, end.stdout_bytes) == (BoxEnd.LOG_LIMIT, 9, 300_000)
    assert end.dropped_bytes > 0


def test_a_descriptor_held_elsewhere_does_not_hold_the_end(launch: Runs, tmp_path: Path) -> None:
    """A program can hand its stdout to a process of another container; the pipe then never ends."""
    run = launch.sh("echo $$; echo up; sleep 0.5; echo done")
    run.wait_for_output(b"up")
    pid = int(run.out().split()[0])
    with open(f"/proc/{pid}/fd/1", "wb"):
        assert run.end().exit_code == 0
    assert run.out().endswith(b"up\ndone\n")


@pytest.mark.root
def test_a_full_disk_makes_the_program_wait_and_loses_nothing(launch: Runs, tmp_path: Path) -> None:
    box = launch.prepare([PYTHON, "-ISc", "import os\nfor n in range(40):\n    os.write(1, b'%07d\\n' % n * 8192)\n"])
    spec, ticket, lease = box.spec.read_bytes(), box.ticket.read_bytes(), box.lease.read_bytes()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(box.run)], check=True)
    try:
        box.spec.write_bytes(spec)
        box.ticket.write_bytes(ticket)
        box.lease.write_bytes(lease)
        ballast = box.run / "ballast"
        ballast.write_bytes(bytes(400_000))
        run = launch.launch(box)
        run.wait_until(lambda: box.stdout.exists() and len(run.out()) > 500_000)
        time.sleep(0.1)
        assert run.process.poll() is None
        # What the Worker's copier does: room comes back, and the program goes on.
        subprocess.run(["mount", "-o", "remount,size=20m", str(box.run)], check=True)
        end = run.end()
        assert (end.exit_code, end.dropped_bytes) == (0, 0)
        assert run.out() == b"".join(b"%07d\n" % n * 8192 for n in range(40))
        check_index(boxes.read_index(box), Stream.STDOUT, end.stdout_bytes)
    finally:
        subprocess.run(["umount", str(box.run)], check=True)


@pytest.mark.root
def test_orders_are_obeyed_and_the_end_is_recorded_on_a_full_disk(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "yes"], grace_ms=100)
    spec, ticket, lease = box.spec.read_bytes(), box.ticket.read_bytes(), box.lease.read_bytes()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(box.run)], check=True)
    try:
        box.spec.write_bytes(spec)
        box.ticket.write_bytes(ticket)
        box.lease.write_bytes(lease)
        run = launch.launch(box, launcher_env={"HEADWAY_FULL_PATIENCE_MS": "300"})
        run.wait_until(lambda: box.stdout.exists() and len(run.out()) > 200_000)
        with box.run.joinpath("ballast").open("wb", buffering=0) as ballast:
            try:
                while ballast.write(bytes(4096)):
                    pass
            except OSError:
                pass
        # Worker's own order could not be written there either.
        run.process.terminate()
        end = run.end()
        assert (end.reason, end.stop_word) == (BoxEnd.STOPPED, StopWord.KILLED_OUTSIDE)
        assert end.dropped_bytes > 0
    finally:
        subprocess.run(["umount", str(box.run)], check=True)


def test_waiting_costs_next_to_nothing(launch: Runs) -> None:
    run = launch.sh("echo up; sleep 300")
    run.wait_for_output(b"up")
    time.sleep(0.1)

    def ticks() -> int:
        fields = Path(f"/proc/{run.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def switches() -> int:
        status = Path(f"/proc/{run.process.pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in status if "voluntary_ctxt" in line)

    before = (ticks(), switches())
    time.sleep(0.8)
    assert ticks() - before[0] <= 1
    assert switches() - before[1] <= 3
    boxes.write_stop(run.box, StopWord.CANCELLED)
    run.end()


@pytest.mark.parametrize("size", [0, 1])
def test_spools_exist_from_the_start(launch: Runs, size: int) -> None:
    run = launch.sh(f"head -c {size} /dev/zero")
    run.end()
    assert (len(run.out()), run.err()) == (size, b"")
    assert os.stat(run.box.stdout).st_mode & 0o777 == 0o600
