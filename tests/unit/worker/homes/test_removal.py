"""A home goes as a whole, whatever happened to it, and nothing else goes with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway.ids import AttemptId
from tests.support.mounts import mounted_below
from tests.support.small_disks import small_disks
from tests.unit.worker.builders import an_attempt
from tests.unit.worker.homes.conftest import child
from tests.unit.worker.homes.image_layers import make_layers
from worker.homes import HomeOrder, TaskHomes, mounting, removal, task_homes

pytestmark = pytest.mark.homes

_ATTEMPT = an_attempt()


def order(tmp_path: Path, *layers: Path) -> HomeOrder:
    share = tmp_path / "share"
    share.mkdir(exist_ok=True)
    (share / "kept").write_text("kept")
    return HomeOrder(
        uid=7, gid=7, layers=layers, shares={"/root/nfs": share}, share_uid=0, share_gid=0, volumes=("/tmp",)
    )


@pytest.fixture
def layers(tmp_path: Path) -> tuple[Path, ...]:
    return make_layers(tmp_path, {"root/a": "a"}, {"root/b": "b"})


def test_what_an_earlier_try_wrote_is_not_seen_again(
    homes: TaskHomes, tmp_path: Path, layers: tuple[Path, ...]
) -> None:
    first = homes.prepare(_ATTEMPT, order(tmp_path, *layers))
    (first.binds["/root"] / "old").write_text("")
    (first.binds["/root"] / "a").unlink()
    again = TaskHomes(tmp_path / "homes", user_namespace=child()).prepare(_ATTEMPT, order(tmp_path, *layers))
    assert sorted(os.listdir(again.binds["/root"])) == ["a", "b", "nfs"]
    assert homes.written(_ATTEMPT) == again.written


def test_nothing_is_left_and_links_and_shares_are_not_followed(
    homes: TaskHomes, tmp_path: Path, layers: tuple[Path, ...]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    home = homes.prepare(_ATTEMPT, order(tmp_path, *layers))
    (home.binds["/root"] / "away").symlink_to(outside)
    (home.binds["/tmp"] / "away").symlink_to(outside)
    homes.remove(_ATTEMPT)
    homes.remove(_ATTEMPT)
    assert os.listdir(tmp_path / "homes") == []
    assert mounted_below(tmp_path / "homes") == []
    assert homes.written(_ATTEMPT) is None
    assert (outside / "kept").read_text() == (tmp_path / "share/kept").read_text() == "kept"


def test_nothing_is_deleted_while_something_else_is_mounted_inside(
    homes: TaskHomes, tmp_path: Path, layers: tuple[Path, ...]
) -> None:
    home = homes.prepare(_ATTEMPT, order(tmp_path, *layers))
    place = home.written / "tmp0/my disk"
    place.mkdir()
    (tmp_path / "share/precious").write_text("p")
    subprocess.run(["mount", "--bind", tmp_path / "share", place], check=True)
    try:
        with pytest.raises(OSError, match="unmount it first"):
            homes.remove(_ATTEMPT)
        assert homes.sweep(()) == 0
        assert (place / "precious").exists()
    finally:
        subprocess.run(["umount", place], check=True)
    homes.remove(_ATTEMPT)
    assert (tmp_path / "share/precious").exists()


def test_a_sweep_leaves_a_home_that_was_begun_meanwhile(
    homes: TaskHomes, tmp_path: Path, layers: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted Worker makes the home of an attempt anew that had one: its name was listed before."""
    first, second = sorted((_ATTEMPT, an_attempt("other")), key=lambda attempt: attempt.folder)
    for attempt in (first, second):
        homes.prepare(attempt, order(tmp_path, *layers))
    known = list[AttemptId]()

    def clear(top: Path) -> None:
        known.append(second)
        removal.clear(top)

    monkeypatch.setattr(task_homes, "clear", clear)
    assert homes.sweep(known) == 1
    assert homes.written(first) is None
    assert homes.written(second) is not None


def test_a_sweep_removes_all_but_what_lives(homes: TaskHomes, tmp_path: Path, layers: tuple[Path, ...]) -> None:
    living, dead = an_attempt("living"), an_attempt("dead")
    for attempt in (living, dead):
        homes.prepare(attempt, order(tmp_path, *layers))
    half = tmp_path / "homes" / an_attempt("half").folder
    (half / "written").mkdir(parents=True)
    assert TaskHomes(tmp_path / "homes", user_namespace=child()).sweep([living]) == 2
    assert os.listdir(tmp_path / "homes") == [living.folder]
    assert TaskHomes(tmp_path / "nowhere", user_namespace=child()).sweep(()) == 0


_STEPS = ("mkdir", "chown", "mount_home", "put", "mount_share", "chmod")


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("step", _STEPS)
@pytest.mark.parametrize("how", ["an error", "a kill"])
def test_a_home_that_was_half_made_is_removed(
    homes: TaskHomes,
    tmp_path: Path,
    layers: tuple[Path, ...],
    step: str,
    how: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = task_homes.clear

    def fail(*_: object, **__: object) -> None:
        if how == "a kill":  # after it nothing is tidied up
            monkeypatch.setattr(task_homes, "clear", lambda top: None)
            raise _Killed
        raise OSError(28, "No space left on device")

    targets = {
        "mkdir": (task_homes, "_make_folders"),
        "chown": (os, "chown"),
        "mount_home": (task_homes, "mount_home"),
        "put": (mounting, "put"),
        "mount_share": (task_homes.TaskHomes, "_mount_shares"),
        "chmod": (task_homes, "parents_first"),
    }
    monkeypatch.setattr(*targets[step], fail)
    with pytest.raises((OSError, _Killed)):
        homes.prepare(_ATTEMPT, order(tmp_path, *layers))
    assert (os.listdir(tmp_path / "homes") == []) == (how == "an error")
    monkeypatch.undo()
    assert task_homes.clear is real
    homes.prepare(_ATTEMPT, order(tmp_path, *layers))
    homes.remove(_ATTEMPT)
    assert os.listdir(tmp_path / "homes") == []
    assert mounted_below(tmp_path / "homes") == []


def test_a_kill_between_the_layers_of_an_older_kernel_leaves_no_mount(
    homes: TaskHomes, tmp_path: Path, layers: tuple[Path, ...]
) -> None:
    code = f"""
import os
from pathlib import Path
from tests.unit.worker.builders import an_attempt
from worker.homes import HomeOrder, TaskHomes, mounting
def refused(*_):
    raise OSError(22, "Invalid argument")
mounting.overlay_of, mounting.mount_overlay = refused, lambda *_: os.kill(os.getpid(), 9)
layers = tuple(map(Path, {[str(layer) for layer in layers]!r}))
TaskHomes(Path({str(tmp_path / "homes")!r}), user_namespace={child()!r}).prepare(an_attempt(), HomeOrder(7, 7, layers))
"""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.getcwd()}, check=False)
    assert done.returncode == -9
    assert len(mounted_below(tmp_path / "homes")) == 2
    assert homes.sweep(()) == 1
    assert mounted_below(tmp_path / "homes") == []
    assert (layers[0] / "root/a").read_text() == "a"


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, layers: tuple[Path, ...]) -> None:
    with small_disks((tmp_path / "disk", 1)) as (disk,):
        homes = TaskHomes(disk.at / "homes", user_namespace=child())
        (disk.at / "homes").mkdir()
        subprocess.run(["mount", "-o", "remount,nr_inodes=9", f"{disk.at}.disk"], check=True)
        with pytest.raises(OSError, match="No space left"):
            homes.prepare(_ATTEMPT, order(tmp_path, *layers))
        assert os.listdir(disk.at / "homes") == []
        assert mounted_below(disk.at / "homes") == []
        assert homes.probe().startswith(f"A home can't be made in {disk.at}/homes: No space left")
        subprocess.run(["mount", "-o", "remount,nr_inodes=999", f"{disk.at}.disk"], check=True)
        homes.prepare(_ATTEMPT, order(tmp_path, *layers))
        homes.remove(_ATTEMPT)


def test_mount_points_are_read_as_the_kernel_writes_them() -> None:
    lines = (rb"1 2 0:1 / /a/b\040c\134d rw - x x rw", b"1 2 0:1 / /a/bc rw - x x rw", b"1 2 0:1 / /a rw - x x rw")
    assert removal.points_below(lines, Path("/a/b c\\d")) == [Path("/a/b c\\d")]
    assert len(removal.points_below(lines, Path("/a"))) == 3
