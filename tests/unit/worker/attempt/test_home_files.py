"""Logs in a home, against the home's own owner."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from worker.attempt import home_files
from worker.attempt.home_files import NewerOutput, give_to, publish
from worker.box import remove_tree

needs_root = pytest.mark.root
UID = 20_001


@pytest.fixture
def home(tmp_path: Path) -> Path:
    # As `headway up` makes it: no other uid passes the state folder above.
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    home = state / "ann"
    home.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(home, UID, UID)
    return home


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "stdout.log").write_bytes(b"out\x00\n")
    return logs


def publish_as(logs: Path, home: Path, folder: str, *, ended_at: float = 1_000.0) -> None:
    uid = UID if os.geteuid() == 0 else os.getuid()
    publish(logs, home, folder, uid=uid, gid=uid, ended_at=ended_at)


def test_logs_lie_in_the_home_as_the_accounts_own(logs: Path, home: Path) -> None:
    publish_as(logs, home, "results/digits")
    target = home / "results" / "digits"
    assert (target / "stdout.log").read_bytes() == b"out\x00\n"
    assert os.listdir(target) == ["stdout.log"]
    if os.geteuid() == 0:
        for path in (home / "results", target, target / "stdout.log"):
            assert (path.stat().st_uid, path.stat().st_gid) == (UID, UID)
    assert os.geteuid() == os.getuid()
    (logs / "stdout.log").write_bytes(b"second")
    publish_as(logs, home, "results/digits")
    assert (target / "stdout.log").read_bytes() == b"second"


def test_output_of_a_later_end_stays(logs: Path, home: Path) -> None:
    """A copy that had failed came minutes later, over the log of the next attempt."""
    publish_as(logs, home, "r", ended_at=1_000.5)
    (logs / "stdout.log").write_bytes(b"first")
    (logs / "stderr.log").write_bytes(b"first")
    with pytest.raises(NewerOutput) as caught:
        publish_as(logs, home, "r", ended_at=1_000.25)
    assert caught.value.where == "r/stdout.log"
    assert os.listdir(home / "r") == ["stdout.log"]
    assert (home / "r" / "stdout.log").read_bytes() == b"out\x00\n"
    publish_as(logs, home, "r", ended_at=1_000.5)
    assert (home / "r" / "stderr.log").read_bytes() == b"first", "the same attempt again"


def test_output_that_comes_while_a_long_log_is_copied_stays(
    logs: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = home_files.shutil.copyfileobj
    with ThreadPoolExecutor(1) as other:
        other.submit(os.getpid).result()  # a thread begins with the rights of the one that made it

        def long(*_: object) -> None:
            monkeypatch.setattr(home_files.shutil, "copyfileobj", copy)
            other.submit(publish_as, logs, home, "r", ended_at=2_000.0).result()

        monkeypatch.setattr(home_files.shutil, "copyfileobj", long)
        with pytest.raises(NewerOutput):
            publish_as(logs, home, "r", ended_at=1_000.0)
    assert (home / "r" / "stdout.log").read_bytes() == b"out\x00\n"
    assert os.listdir(home / "r") == ["stdout.log"]


def test_a_file_of_the_tasks_own_is_replaced(logs: Path, home: Path) -> None:
    publish_as(logs, home, "r")
    os.utime(home / "r" / "stdout.log", ns=(1, 2_000 * 10**9 + 1))
    publish_as(logs, home, "r")
    assert (home / "r" / "stdout.log").stat().st_mtime == 1_000.0


def test_a_link_on_the_way_leads_nowhere(logs: Path, home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o777)
    (home / "results").symlink_to(outside)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        publish_as(logs, home, "results")
    assert not list(outside.iterdir())


def test_a_link_at_the_end_is_replaced_not_followed(logs: Path, home: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (home / "stdout.log").symlink_to(victim)
    (home / "r").mkdir()
    (home / "r" / "stdout.log").symlink_to(victim)
    if os.geteuid() == 0:
        os.chown(home / "r", UID, UID)
    publish_as(logs, home, "r")
    assert victim.read_bytes() == b"precious"
    assert not (home / "r" / "stdout.log").is_symlink()


@pytest.mark.parametrize("folder", ["..", "a/../../b", ""])
def test_no_way_out_by_dots(logs: Path, home: Path, folder: str) -> None:
    with pytest.raises(OSError, match="not a path below"):
        publish_as(logs, home, folder)


@needs_root
def test_what_the_account_may_not_write_is_not_written_for_it(logs: Path, home: Path) -> None:
    closed = home / "closed"
    closed.mkdir(mode=0o700)  # root's
    with pytest.raises(PermissionError):
        publish_as(logs, home, "closed")
    # The thread has its own rights again.
    (closed / "ours").write_bytes(b"")


_WITHOUT_ROOTS_RIGHTS = """
import ctypes, os, sys
from pathlib import Path
libc = ctypes.CDLL(None)
if sys.argv[1] == "drop":
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        assert libc.prctl(24, capability, 0, 0, 0) == 0
    os.execv(sys.executable, [sys.executable, "-c", os.environ["SCRIPT"], "go", *sys.argv[2:]])
from worker.attempt.home_files import publish
logs, home, uid = Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
try:
    os.listdir(home)
except PermissionError:
    publish(logs, home, "results", uid=uid, gid=uid, ended_at=1.0)
"""


@needs_root
def test_where_a_server_takes_roots_rights_the_account_passes_by_itself(logs: Path, home: Path) -> None:
    os.chown(home.parent, UID, UID)
    for folder in (home.parent.parent, *home.parent.parent.parents):
        if folder == Path("/tmp"):
            break
        folder.chmod(folder.stat().st_mode | 0o011)
    script = [sys.executable, "-c", _WITHOUT_ROOTS_RIGHTS, "drop", str(logs), str(home), str(UID)]
    env = {**os.environ, "SCRIPT": _WITHOUT_ROOTS_RIGHTS, "PYTHONPATH": os.getcwd()}
    subprocess.run(script, check=True, env=env)
    assert (home / "results" / "stdout.log").read_bytes() == b"out\x00\n"


@needs_root
def test_an_error_names_the_part_of_the_path(logs: Path, home: Path) -> None:
    (home / "results").write_bytes(b"")
    with pytest.raises(OSError, match="Not a directory") as caught:
        publish_as(logs, home, "results/digits")
    assert caught.value.filename == "results"
    home.chmod(0)
    with pytest.raises(PermissionError) as closed:
        publish_as(logs, home, "results/digits")
    assert closed.value.filename == str(home)


@needs_root
def test_files_of_a_root_task_are_given_to_the_account_and_links_lead_nowhere(home: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    (home / "deep").mkdir(mode=0o700)
    (home / "deep" / "file").write_bytes(b"x")
    (home / "link").symlink_to(victim)
    (home / "loop").symlink_to(home)
    assert give_to(home, uid=UID, gid=UID) == 4
    assert (home / "deep" / "file").stat().st_uid == UID
    assert (home / "link").lstat().st_uid == UID
    assert victim.stat().st_uid == 0
    assert give_to(home, uid=UID, gid=UID) == 0


@pytest.mark.root
def test_files_far_below_get_their_owner_and_links_lead_nowhere(tmp_path: Path) -> None:
    """A root task can nest folders deeper than any recursion goes."""
    home, outside = tmp_path / "home", tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("")
    home.mkdir()
    os.chown(home, UID, UID)
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(1_500):
        os.mkdir("deeper", dir_fd=folder)
        inner = os.open("deeper", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.symlink(outside, "link", dir_fd=folder)
    assert give_to(home, uid=UID, gid=UID) == 1_501
    assert os.stat("link", dir_fd=folder, follow_symlinks=False).st_uid == UID
    assert os.stat(folder).st_uid == UID
    os.close(folder)
    assert outside.stat().st_uid == 0
    assert (outside / "precious").stat().st_uid == 0
    remove_tree(home)
