"""The launcher believes only a spec and mounts that it can prove."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.without_openat2 import KERNELS
from tests.unit.worker.launcher.runs import Runs
from worker import box as boxes
from worker.box import Box, BoxEnd, StartStage
from worker.launcher import FOREIGN_BOX


def _exit_code(launch: Runs, box: Box, digest: str) -> int:
    """Of a launcher that was told this digest."""
    run = launch.launch(box, prefix=["/bin/sh", "-c", 'exec "$0" "$@" "$HEADWAY_BOX" ' + digest])
    return int(run.process.wait(20))


def _digest(box: Box) -> str:
    return boxes.spec_digest(boxes.spec_bytes(box))


@pytest.mark.parametrize("length", [0, 1, 54, 55, 56, 62, 63, 64, 65, 119, 120, 5000])
def test_a_spec_of_any_length_is_proven_by_its_digest(launch: Runs, length: int) -> None:
    box = launch.prepare(["/bin/true"], env={"A": "x" * length})
    assert _exit_code(launch, box, _digest(box)) == 0
    end = boxes.read_end(box)
    assert end is not None
    assert end.exit_code == 0


def test_a_spec_that_is_not_the_workers_starts_nothing(launch: Runs) -> None:
    """An image had a volume where the box was, with a spec in it: the program was root and had no timeout."""
    box = launch.prepare(["/bin/sh", "-c", f"touch {launch.folder}/ran"])
    digest = _digest(box)
    box.spec.write_bytes(box.spec.read_bytes().replace(b"timeout_ms=20000", b"timeout_ms=99999999"))
    assert _exit_code(launch, box, digest) == FOREIGN_BOX
    assert not (launch.folder / "ran").exists()
    assert box.ticket.exists(), "the Worker withdraws it"
    assert boxes.read_end(box) is None


@pytest.mark.parametrize("how", ["link", "missing", "writable"])
def test_a_spec_in_another_form_starts_nothing(launch: Runs, how: str) -> None:
    box = launch.prepare(["/bin/true"])
    digest = _digest(box)
    if how == "link":
        box.spec.rename(box.root / "elsewhere")
        box.spec.symlink_to("../elsewhere")
    elif how == "missing":
        box.spec.unlink()
    else:
        box.spec.chmod(0o666)
    assert _exit_code(launch, box, digest) == FOREIGN_BOX


def test_a_link_where_the_box_was_mounted_is_not_followed(launch: Runs) -> None:
    box = launch.prepare(["/bin/true"])
    digest = _digest(box)
    real = box.root.rename(box.root.with_name("real"))
    box.root.symlink_to(real)
    assert _exit_code(launch, box, digest) == 125, "no box at its place"


@pytest.mark.parametrize("prefix", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("what", ["link", "link to a mount", "link above", "file", "nothing", "a plain folder"])
def test_a_mount_behind_something_of_the_image_starts_nothing(
    launch: Runs, tmp_path: Path, what: str, prefix: list[str]
) -> None:
    """The launcher's root is the machine's here, so a path below it is as good as one of an image."""
    place, elsewhere = tmp_path / "image" / "nfs", tmp_path / "elsewhere"
    (elsewhere / "nfs").mkdir(parents=True)
    if what == "link above":
        place.parent.symlink_to(elsewhere)
    else:
        place.parent.mkdir()
        if what == "link":
            place.symlink_to(elsewhere)
        elif what == "link to a mount":
            place.symlink_to("/proc")
        elif what == "file":
            place.write_text("")
        elif what == "a plain folder":
            place.mkdir()
    box = launch.prepare(["/bin/sh", "-c", f"touch {launch.folder}/ran"], mounts=("/proc", str(place)))
    assert launch.launch(box, prefix=prefix).process.wait(20) == 0
    end = boxes.read_end(box)
    assert end is not None
    assert (end.reason, end.stage) == (BoxEnd.START_FAILED, StartStage.IMAGE)
    assert f"of the image is in the way of {place}"[:60] in (end.error or "")
    assert not (launch.folder / "ran").exists()


def test_what_is_mounted_in_its_place_is_fine(launch: Runs) -> None:
    run = launch.sh("true", mounts=("/proc", "/dev"))
    assert run.process.wait(20) == 0
    end = boxes.read_end(run.box)
    assert end is not None
    assert end.exit_code == 0


@pytest.mark.root
@pytest.mark.parametrize("over", [True, False], ids=["over the Worker's", "below the Worker's"])
@pytest.mark.parametrize("name", ["nfs", "n f\\s"])
def test_a_volume_in_the_place_of_a_mount_starts_nothing(launch: Runs, tmp_path: Path, name: str, over: bool) -> None:
    """An image's volume that links lead there is put over the home, or under it."""
    place, home = tmp_path / name, tmp_path / "home"
    place.mkdir()
    home.mkdir()
    box = launch.prepare(["/bin/true"], mounts=(str(place),))
    mounts = ['mount --bind "$0" "$1"', 'mount -t tmpfs volume "$1"']
    script = " && ".join([*(mounts if over else reversed(mounts)), 'shift && exec "$@"'])
    prefix = ["unshare", "--mount", "sh", "-c", script, str(home), str(place)]
    assert launch.launch(box, prefix=prefix).process.wait(20) == 0
    end = boxes.read_end(box)
    assert end is not None
    assert (end.reason, end.stage, end.errno) == (BoxEnd.START_FAILED, StartStage.IMAGE, "EBUSY")
    assert (end.error or "").startswith("a volume of the image is in the way of")


@pytest.mark.root
@pytest.mark.parametrize("name", ["nfs", "n f\\s"])
def test_one_mount_is_fine(launch: Runs, tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    box = launch.prepare(["/bin/true"], mounts=(str(place),))
    prefix = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$0" && exec "$@"', str(place)]
    assert launch.launch(box, prefix=prefix).end().exit_code == 0
