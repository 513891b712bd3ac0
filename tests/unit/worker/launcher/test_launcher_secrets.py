"""Secrets reach the program, and nothing else: the real launcher, and a Worker that is there, late, or dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.launcher.runs import PYTHON, Run, Runs
from worker.box import Box, SecretPlace, StopWord, write_stop

TOKEN = b"hf_" + b"T0ken" * 5
PRINT = "import os, sys; sys.stdout.write(os.environ['TOKEN'])"


def packed(*values: bytes) -> bytes:
    return b"".join(struct.pack(">Q", len(value)) + value for value in values)


@contextlib.contextmanager
def giving(box: Box, *answers: bytes) -> Iterator[None]:
    """A Worker that answers one caller after the other with these bytes."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(box.run, os.O_RDONLY)
    door.bind(f"/proc/self/fd/{folder}/secrets")
    os.close(folder)
    door.listen()

    def serve() -> None:
        for answer in answers:
            with contextlib.suppress(OSError):
                line, _ = door.accept()
                with line:
                    line.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        door.shutdown(socket.SHUT_RDWR)
        door.close()
        thread.join()
        box.secrets.unlink()


@pytest.fixture
def memory_root() -> Iterator[Path]:
    """A root folder with /run/secrets in memory."""
    with tempfile.TemporaryDirectory(prefix="hw", dir="/dev/shm") as name:
        (Path(name) / "run" / "secrets").mkdir(parents=True)
        yield Path(name)


def ended(run: Run, word: str = "exited") -> None:
    record = run.end()
    assert (record.reason, record.error) == (word, record.error if word != "exited" else None), run.log()


def files_of(box: Box) -> bytes:
    return b"".join(path.read_bytes() for path in box.root.rglob("*") if path.is_file() and path != box.stdout)


def test_a_variable_is_given_and_the_box_has_no_byte_of_it(launch: Runs):
    box = launch.prepare([PYTHON, "-ISc", PRINT], secrets=(SecretPlace("TOKEN"),))
    with giving(box, packed(TOKEN)):
        run = launch.launch(box)
        ended(run)
    assert run.out() == TOKEN
    assert TOKEN not in files_of(box)


def test_a_file_is_the_tasks_alone_and_lies_in_memory(launch: Runs, memory_root: Path):
    value = b"\0" + os.urandom(65_535)
    box = launch.prepare(["/bin/true"], secrets=(SecretPlace("id_rsa", is_file=True), SecretPlace("TOKEN")))
    with giving(box, packed(value, TOKEN)):
        ended(launch.launch(box, launcher_env={"HEADWAY_ROOT": str(memory_root)}))
    file = memory_root / "run" / "secrets" / "id_rsa"
    assert file.read_bytes() == value
    assert file.stat().st_mode & 0o7777 == 0o400
    assert file.stat().st_uid == os.getuid()
    assert value not in files_of(box)


def test_a_folder_on_a_disk_takes_no_secret(launch: Runs, tmp_path: Path):
    if os.statvfs(tmp_path).f_fsid == os.statvfs("/dev/shm").f_fsid:
        pytest.fail("the tests' own folder has to be on a disk")
    (tmp_path / "root" / "run" / "secrets").mkdir(parents=True)
    box = launch.prepare(["/bin/true"], secrets=(SecretPlace("key", is_file=True),))
    with giving(box, packed(TOKEN)):
        run = launch.launch(box, launcher_env={"HEADWAY_ROOT": str(tmp_path / "root")})
        record = run.end()
    assert record.error == "/run/secrets is no folder in memory"
    assert record.started_wall_ns is None
    assert not list((tmp_path / "root" / "run" / "secrets").iterdir())


@pytest.mark.parametrize("at", ["/run/secrets", "/run"])
def test_no_link_of_an_image_leads_a_secret_away(launch: Runs, memory_root: Path, at: str):
    elsewhere = memory_root / "elsewhere"
    (elsewhere / "secrets").mkdir(parents=True)
    place = memory_root / at[1:]
    place.rename(memory_root / "moved")
    place.symlink_to(elsewhere if at == "/run" else elsewhere / "secrets")
    box = launch.prepare(["/bin/true"], secrets=(SecretPlace("key", is_file=True),))
    with giving(box, packed(TOKEN)):
        run = launch.launch(box, launcher_env={"HEADWAY_ROOT": str(memory_root)})
        assert run.end().error == "/run/secrets is no folder in memory"
    assert not list((elsewhere / "secrets").iterdir())


def test_a_file_that_the_image_has_there_is_not_written_into(launch: Runs, memory_root: Path):
    (memory_root / "run" / "secrets" / "key").write_text("the image's")
    box = launch.prepare(["/bin/true"], secrets=(SecretPlace("key", is_file=True),))
    with giving(box, packed(TOKEN)):
        record = launch.launch(box, launcher_env={"HEADWAY_ROOT": str(memory_root)}).end()
    assert "can't be written" in (record.error or "")
    assert (memory_root / "run" / "secrets" / "key").read_text() == "the image's"


def test_a_worker_that_dies_in_the_middle_of_an_answer_is_asked_again_when_it_is_back(launch: Runs):
    box = launch.prepare([PYTHON, "-ISc", PRINT], secrets=(SecretPlace("TOKEN"),))
    run = launch.launch(box)
    run.wait_until(lambda: box.lock.exists())
    with giving(box, packed(TOKEN)[:-3]):
        pass
    assert not box.started.exists()
    with giving(box, packed(TOKEN)[:-3], packed(TOKEN)):
        ended(run)
    assert run.out() == TOKEN


def test_one_that_waits_for_its_secrets_can_be_stopped_and_never_runs(launch: Runs):
    box = launch.prepare(["/bin/true"], secrets=(SecretPlace("TOKEN"),))
    run = launch.launch(box)
    run.wait_until(lambda: "boot_id" in box.ticket.read_text())
    write_stop(box, StopWord.CANCELLED)
    record = run.end()
    assert (record.reason, record.stop_word, record.started_wall_ns) == ("stopped", "cancelled", None)
    assert not box.ticket_taken.exists()


def test_a_nul_in_a_variable_is_refused_with_its_name_and_without_its_value(launch: Runs):
    box = launch.prepare(["/bin/true"], secrets=(SecretPlace("TOKEN"),))
    with giving(box, packed(b"geheim\0mehr")):
        run = launch.launch(box)
        record = run.end()
    assert record.error == "the secret in TOKEN has a NUL byte, as no variable can"
    assert b"geheim" not in files_of(box)


def test_a_hundred_secrets_come_in_their_order(launch: Runs):
    names = [f"S{number:03}" for number in range(100)]
    values = [os.urandom(600).hex().encode() for _ in names]
    script = f"import os, sys; sys.stdout.write(''.join(os.environ[n] for n in {names}))"
    box = launch.prepare([PYTHON, "-ISc", script], secrets=tuple(map(SecretPlace, names)))
    with giving(box, packed(*values)):
        run = launch.launch(box)
        ended(run)
    assert run.out() == b"".join(values)


@pytest.mark.root  # to read the memory of a process that allows it to nobody
def test_the_launcher_keeps_nothing_of_it_in_its_memory(launch: Runs):
    """A program that broke out of its user would look there. Only its own memory has the value."""
    box = launch.prepare(["/bin/sleep", "60"], secrets=(SecretPlace("TOKEN"),))
    with giving(box, packed(TOKEN)):
        run = launch.launch(box)
        run.wait_until(lambda: box.started.exists())
    found = []
    with open(f"/proc/{run.process.pid}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{run.process.pid}/maps").read_text().splitlines():
            span, mode = line.split()[:2]
            low, high = (int(one, 16) for one in span.split("-"))
            if "r" in mode and "[v" not in line:
                memory.seek(low)
                with contextlib.suppress(OSError):
                    found.append(memory.read(high - low))
    assert found
    assert not any(TOKEN in part for part in found)


def test_a_value_larger_than_any_secret_is_not_believed(launch: Runs):
    box = launch.prepare([PYTHON, "-ISc", PRINT], secrets=(SecretPlace("TOKEN"),))
    with giving(box, struct.pack(">Q", 1 << 62) + b"x", packed(TOKEN)):
        run = launch.launch(box)
        ended(run)
    assert run.out() == TOKEN


def test_a_running_worker_gives_them_to_the_holder_of_the_lock_alone(launch: Runs):
    from headway.ids import AttemptId, JobId, TaskId
    from worker.runtime.secret_offers import SecretOffers

    box = launch.prepare([PYTHON, "-ISc", PRINT], secrets=(SecretPlace("TOKEN"),))
    attempt = AttemptId(TaskId(JobId("j1"), "t"), 1)

    async def check() -> bytes:
        offers = SecretOffers(lambda _: box)
        await offers.give(attempt, [TOKEN])
        folder = os.open(box.run, os.O_RDONLY)
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/secrets")
        os.close(folder)
        assert await reader.read() == b"", "a process that is no launcher got an answer"
        writer.close()
        run = launch.launch(box)
        await asyncio.to_thread(ended, run)
        offers.forget(attempt)
        assert not box.secrets.exists()
        offers.forget(attempt)
        return run.out()

    assert asyncio.run(check()) == TOKEN
