"""What a task prints, byte for byte, live and afterwards."""

from __future__ import annotations

import hashlib
import time

import pytest

from tests.docker.conftest import Jobs, a_task

pytestmark = pytest.mark.docker

MIB = 1 << 20


def test_long_lines_are_whole(jobs: Jobs) -> None:
    """LOG-03: lines above 16 kB were cut, with a time stamp in the middle."""
    script = "head -c 100000 /dev/zero | tr '\\0' a; echo; head -c 5000000 /dev/zero | tr '\\0' b; echo"
    assert jobs.prints(script) == b"a" * 100_000 + b"\n" + b"b" * 5_000_000 + b"\n"


def test_bytes_that_are_no_text(jobs: Jobs) -> None:
    """LOG-04: broken UTF-8 in the output made a good task fail."""
    script = "printf '\\000\\377\\355\\240\\200 \\303'; sleep 0.3; printf '\\244\\r\\n\\033[31m last'"
    assert jobs.prints(script) == b"\x00\xff\xed\xa0\x80 \xc3\xa4\r\n\x1b[31m last"
    data = jobs.prints("head -c 300000 /dev/urandom > /root/nfs/random; cat /root/nfs/random")
    assert hashlib.sha256(data).digest() == hashlib.sha256((jobs.home() / "random").read_bytes()).digest()


def test_the_last_lines_are_never_lost(jobs: Jobs) -> None:
    """LOG-05: what was printed in the last moment went with the container."""
    tasks = [a_task(f"seq 50; echo 'error {i}' >&2; exit {i}", f"t{i}", resources={"cpus": 0.1}) for i in range(1, 25)]
    done = jobs.run(*tasks, within_s=120)
    for task in done["tasks"]:
        number = task["name"][1:]
        assert task["reason"]["exit_code"] == int(number)
        assert jobs.cluster.client.log(done["id"], task["name"]).endswith(b"\n49\n50\n")
        assert jobs.cluster.client.log(done["id"], task["name"], stream="stderr") == f"error {number}\n".encode()


def test_output_is_seen_while_it_runs(jobs: Jobs) -> None:
    """LOG-08, LOG-01: nothing was seen before the end; progress bars without line ends neither."""
    job = jobs.begin(a_task("for i in 1 2 3 4 5 6; do printf '%s0%%\\r' $i; sleep 0.4; done"))
    jobs.until_it_prints(job, b"10%\r")
    seen = [(time.monotonic(), data) for data in jobs.cluster.client.follow_log(job, "a")]
    assert b"".join(data for _, data in seen) == b"10%\r20%\r30%\r40%\r50%\r60%\r"
    assert seen[-1][0] - seen[0][0] > 0.8
    assert jobs.ended(job)["state"] == "SUCCEEDED"


def test_both_streams_are_one_log_in_the_order_in_which_they_came(jobs: Jobs) -> None:
    """While it runs, and afterwards from the mount."""
    script = "for i in 1 2 3; do echo out $i; sleep 0.3; echo err $i >&2; sleep 0.3; done"
    job = jobs.begin(a_task(script))
    jobs.until_it_prints(job, b"out 1\n")
    whole = b"".join(f"out {i}\nerr {i}\n".encode() for i in (1, 2, 3))
    assert b"".join(jobs.cluster.client.follow_log(job, "a", stream="both")) == whole
    jobs.ended(job)
    assert jobs.cluster.client.log(job, "a", stream="both") == whole
    assert jobs.cluster.client.log(job, "a", stream="both", tail=6) == b"err 3\n"


def test_python_is_not_buffered(jobs: Jobs, python_image: str) -> None:
    """LOG-08."""
    script = "import time\nfor i in range(4):\n    print(i)\n    time.sleep(1)"
    job = jobs.begin(a_task(["python3", "-c", script], image=python_image, resources={"memory": "256MiB"}))
    jobs.until_it_prints(job, b"0\n")
    assert jobs.state(job) == "RUNNING"
    assert b"3" not in jobs.cluster.client.log(job, "a")
    assert jobs.cluster.client.log(jobs.ended(job)["job"], "a") == b"0\n1\n2\n3\n"


def test_past_the_limit_output_is_dropped_and_told(jobs: Jobs) -> None:
    """LOG-11: one container's log filled the disk."""
    task = jobs.task("yes | head -c 30000000; echo end >&2", log_limit="5MiB")
    assert task["state"] == "SUCCEEDED"
    out = jobs.out(task)
    assert out.startswith(b"y\ny\n")
    assert 5 * MIB <= len(out) < 5 * MIB + 1000
    assert b"dropped" in out[-300:]
    assert task["attempts"][0]["dropped_bytes"] >= 24_000_000
    assert "dropped" in task["attempts"][0]["warnings"][0]


def test_past_the_limit_it_can_be_ended(jobs: Jobs) -> None:
    task = jobs.task("yes", log_limit="1MiB", log_limit_action="kill")
    assert (task["state"], task["reason"]["word"]) == ("FAILED", "log_limit")


def test_much_in_a_second(jobs: Jobs) -> None:
    """LOG-19: a log of more than one message's size made the task fail."""
    out = jobs.prints("yes 0123456789abcdef | head -c 30000000")
    assert len(out) == 30_000_000
    assert out == (b"0123456789abcdef\n" * 2_000_000)[:30_000_000]


@pytest.mark.slow
def test_two_hundred_megabytes(jobs: Jobs) -> None:
    task = jobs.task("yes 0123456789abcdef | head -c 200000000", within_s=120)
    assert task["state"] == "SUCCEEDED"
    assert task["attempts"][0]["stdout_bytes"] == 200_000_000
    digest, size = hashlib.sha256(), 0
    for data in jobs.cluster.client.follow_log(task["job"], "a"):
        digest.update(data)
        size += len(data)
    want = hashlib.sha256((b"0123456789abcdef\n" * (200_000_000 // 17 + 1))[:200_000_000])
    assert (size, digest.digest()) == (200_000_000, want.digest())
