"""What an image left in /root is the task's own, and nothing of the image changes."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.builders import an_attempt
from tests.unit.worker.homes.image_layers import GONE, Entry, folder, link, make_layers, snapshot
from worker.homes import HomeImpossible, HomeOrder, TaskHome, TaskHomes, image_tree, mounting

pytestmark = pytest.mark.homes

_UID, _GID = 100_001, 100_002
_OTHER = 1_000
_NOBODY = 65_534
_ATTEMPT = an_attempt()


def prepare(homes: TaskHomes, *layers: Path, **more: Any) -> TaskHome:
    return homes.prepare(_ATTEMPT, HomeOrder(**{"uid": _UID, "gid": _GID, "layers": layers, **more}))


def run(home: TaskHome, script: str, *, uid: int = _UID, gid: int = _GID) -> str:
    """What a process of the task prints that stands in the home, without any capability."""
    done = subprocess.run(
        ["/bin/sh", "-ec", script],
        cwd=home.binds["/root"],
        user=uid,
        group=gid,
        extra_groups=(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def owner(path: Path) -> tuple[int, int]:
    facts = path.lstat()
    return facts.st_uid, facts.st_gid


def test_files_of_root_become_the_tasks_and_those_of_others_stay_closed(homes: TaskHomes, tmp_path: Path) -> None:
    layers = make_layers(
        tmp_path,
        {"root": folder(0o700), "root/.cache": folder(0o700), "root/.cache/x": "old", "root/.bashrc": "rc"},
        {"root/.local/bin/tool": Entry(text="#!/bin/sh\necho works\n", mode=0o700), "root/link": link(".bashrc")},
        {"root/staff": Entry(text="s", mode=0o600, gid=50)},
        {"root/private": folder(0o700, _OTHER, _OTHER), "root/private/key": "secret"},
        {"root/suid": Entry(mode=0o4755)},
    )
    before = snapshot(layers)
    home = prepare(homes, *layers)
    merged, upper = home.binds["/root"], home.written / "home"

    assert os.listdir(upper) == []
    assert owner(merged) == (_UID, _GID)
    assert stat.S_IMODE(merged.stat().st_mode) == 0o700
    for name in (".cache", ".cache/x", ".bashrc", ".local/bin/tool", "link"):
        assert owner(merged / name) == (_UID, _GID), name
    assert owner(merged / "staff") == (_UID, 50)
    assert owner(merged / "private")[0] == _NOBODY
    assert run(home, "ls private >/dev/null 2>&1 || cat private/key 2>/dev/null || echo closed") == "closed\n"
    assert run(home, ".local/bin/tool; cat link") == "works\nrc"
    flags = next(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {merged} " in line)
    assert "nosuid" in flags
    assert "nodev" in flags

    run(home, "echo new >.cache/x; chmod 700 .bashrc; echo more >>staff; rm -r .local; echo y >made; ln .bashrc hard")
    run(home, "mv .cache moved; mkdir -p .config/a; mv link moved/link2")
    assert owner(upper / "made") == owner(upper / "moved/x") == owner(upper / "hard") == (_UID, _GID)
    assert owner(upper / "staff") == (_UID, 50)
    assert run(home, "cat moved/x; ls -A") == "new\n.bashrc\n.config\nhard\nmade\nmoved\nprivate\nstaff\nsuid\n"
    assert snapshot(layers) == before
    homes.remove(_ATTEMPT)
    assert snapshot(layers) == before


@pytest.mark.parametrize("uid", [0, 1, _OTHER, _NOBODY, 2**31 + 5])
def test_any_uid_works(homes: TaskHomes, tmp_path: Path, uid: int) -> None:
    home = prepare(homes, *make_layers(tmp_path, {"root/a/b": "x"}), uid=uid, gid=uid)
    assert run(home, "echo y >>a/b; mv a c; cat c/b", uid=uid, gid=uid) == "xy\n"
    assert owner(home.written / "home/c/b") == (uid, uid)


def test_the_owner_of_the_images_home_is_who_becomes_the_task(homes: TaskHomes, tmp_path: Path) -> None:
    layers = make_layers(
        tmp_path, {"root": folder(0o755, _OTHER, _OTHER), "root/own": Entry(uid=_OTHER, gid=_OTHER), "root/roots": ""}
    )
    home = prepare(homes, *layers)
    assert owner(home.binds["/root"] / "own") == (_UID, _GID)
    assert owner(home.binds["/root"] / "roots")[0] == _NOBODY
    same = prepare(homes, *layers, uid=_OTHER, gid=_OTHER)
    assert owner(same.binds["/root"] / "roots") == (0, 0)
    assert owner(same.binds["/root"] / "own") == (_OTHER, _OTHER)


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        ([], []),
        ([{"etc/x": ""}], []),
        ([{"root/a": ""}, {"root": GONE}, {"root/b": ""}], ["a"]),
        ([{"root": GONE}, {"root/b": ""}], []),
        ([{"root": folder(opaque=True), "root/a": ""}, {"root/b": ""}], ["a"]),
        ([{"root/a": ""}, {"root/b": "", "root": folder(opaque=True)}, {"root/c": ""}], ["a", "b"]),
        ([{"root/a": ""}, {"root": link("/etc")}, {"root/b": ""}], ["a"]),
        ([{"root/a": ""}, {"root": "a file"}, {"root/b": ""}], ["a"]),
        ([{"root/a": GONE, "root/b": GONE}, {"root/a": "", "root/b/x": "", "root/c": ""}], ["c"]),
        ([{"root": link("/home/app")}, {"home/app/a": ""}, {"root/b": ""}], ["a"]),
        ([{"root": link("home/new")}, {"root/b": ""}], []),
        ([{"root": link("/home/app"), "home": folder(opaque=True)}, {"home/app/a": ""}], []),
    ],
)
def test_what_an_image_hides_stays_hidden(
    homes: TaskHomes, tmp_path: Path, layers: list[dict[str, Entry | str]], names: list[str]
) -> None:
    home = prepare(homes, *make_layers(tmp_path, *layers))
    assert sorted(os.listdir(home.binds["/root"])) == names
    run(home, "echo x >new; mkdir d")
    assert owner(home.written / "home/new") == (_UID, _GID)


@pytest.mark.parametrize(
    ("root", "why"),
    [
        (Entry(text="x"), "The image's /root is no folder"),
        (Entry("pipe"), "The image's /root is no folder"),
        (link("/"), "is a link to /, where no home can be mounted"),
        (link("/proc/self"), "is a link to /proc/self, where no home can be mounted"),
        (link("etc/passwd"), "is a link to /etc/passwd, which is no folder"),
        (link("root"), "can't be read: too many links"),
    ],
)
def test_a_root_that_is_no_folder_is_refused_in_words(homes: TaskHomes, tmp_path: Path, root: Entry, why: str) -> None:
    with pytest.raises(HomeImpossible, match=why):
        prepare(homes, *make_layers(tmp_path, {"root": root, "etc/passwd": "x", "proc": folder()}))
    assert os.listdir(tmp_path / "homes") == [] if (tmp_path / "homes").exists() else True


@pytest.mark.parametrize("old", [False, True], ids=["kernel of today", "kernel before 6.13"])
def test_127_layers_are_stacked(homes: TaskHomes, tmp_path: Path, old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if old:
        monkeypatch.setattr(mounting, "overlay_of", _refused)
    # A state folder whose path is long, and each layer with a file of its own and one that all have.
    layers = make_layers(tmp_path, *({f"root/{number}": "", "root/same": str(number)} for number in range(127)))
    home = prepare(homes, *layers)
    assert len(os.listdir(home.binds["/root"])) == 128
    assert run(home, "echo x >>126; cat same") == "0"
    assert [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "/layers/" in line] == []


def _refused(*_: object) -> int:
    raise OSError(errno.EINVAL, "Invalid argument")


def test_many_files_are_not_touched(homes: TaskHomes, tmp_path: Path) -> None:
    (layer,) = make_layers(tmp_path, {"root/d/0": "x"})
    for number in range(1, 5_000):  # links take no inodes of the disk
        os.link(layer / "root/d/0", layer / f"root/d/{number}")
    home = prepare(homes, layer)
    assert [path.name for path in home.written.rglob("*")] == ["home"]
    assert run(home, "ls d | wc -l").strip() == "5000"
    run(home, "echo y >>d/7")
    assert len(list(home.written.rglob("*"))) == 3


def test_shares_are_shown_as_the_tasks_and_belong_to_the_account_on_disk(homes: TaskHomes, tmp_path: Path) -> None:
    share = tmp_path / "ann"
    share.mkdir(mode=0o700)
    os.chown(share, 20_001, 20_002)
    (share / "root's").write_text("")
    home = prepare(
        homes, shares={"/root/nfs": share}, share_uid=20_001, share_gid=20_002, volumes=("/root/nfs/data/deep",)
    )
    place = home.binds["/root/nfs"]
    inside = TaskHome({"/root": place}, home.written)

    assert place != share
    assert home.notes == ()
    assert owner(home.binds["/root"] / "nfs") == owner(place) == (_UID, _GID)
    assert owner(place / "root's") == (_NOBODY, _NOBODY)
    assert home.binds["/root/nfs/data/deep"] == place / "data/deep"
    run(
        inside,
        "echo x >made; mkdir folder; echo y >folder/z; echo w >data/deep/v; ! rm -f folder/none/x/y 2>/dev/null || :",
    )
    for name in ("made", "folder", "folder/z", "data", "data/deep", "data/deep/v"):
        assert owner(share / name) == (20_001, 20_002), name
    homes.remove(_ATTEMPT)
    assert (share / "folder/z").read_text() == "y\n"


def test_a_share_that_is_the_tasks_anyway_stays_as_it_is(homes: TaskHomes, tmp_path: Path) -> None:
    own = prepare(homes, shares={"/root/nfs": tmp_path}, share_uid=_UID, share_gid=_GID)
    assert own.binds["/root/nfs"] == tmp_path
    assert prepare(homes, shares={"/root/nfs": tmp_path}).binds["/root/nfs"] == tmp_path


def test_a_share_that_cannot_be_mapped_is_told(
    homes: TaskHomes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.homes.task_homes.mount_share", _refused)
    home = prepare(homes, shares={"/root/nfs": tmp_path}, share_uid=1, share_gid=1)
    assert home.binds["/root/nfs"] == tmp_path
    assert home.notes == ("/root/nfs is shown with the owners that it has on disk (Invalid argument).",)


def test_places_of_the_platform_are_the_tasks_whatever_the_image_has_there(homes: TaskHomes, tmp_path: Path) -> None:
    layers = make_layers(
        tmp_path,
        {
            "root/datasets": folder(0o700, _OTHER, _OTHER),
            "root/datasets/secret": "",
            "root/nfs": "a file",
            "root/code/x": "",
            "root/closed": folder(0o000),
            "root/closed/kept": "",
        },
    )
    shares = {"/root/nfs": tmp_path, "/root/code": tmp_path}
    home = prepare(homes, *layers, shares=shares, mountpoints=("/root/datasets/mnist", "/root/closed/a"))
    assert run(home, "ls datasets closed nfs code; rm code/x; echo x >closed/y") == (
        "closed:\na\nkept\n\ncode:\nx\n\ndatasets:\nmnist\n\nnfs:\n"
    )
    for name in ("nfs", "datasets", "datasets/mnist", "closed", "closed/a"):
        assert owner(home.binds["/root"] / name) == (_UID, _GID), name


def test_volumes_in_promised_places_are_the_tasks(homes: TaskHomes, tmp_path: Path) -> None:
    layers = make_layers(
        tmp_path,
        {
            "root/has": folder(),
            "root/has/kept": "k",
            "root/app": folder(0o750, _OTHER, _OTHER),
            "root/app/there": folder(),
            "root/open": folder(0o755, _OTHER, _OTHER),
            "root/open/kept": "o",
            "root/in": link("/root/has"),
            "root/out": link("/srv"),
            "srv/x": "",
            "tmp": link("/var/tmp"),
        },
    )
    volumes = (
        "/root",
        "/root/has",
        "/root/new/er",
        "/root/app/there",
        "/root/open/data",
        "/root/in/deep",
        "/root/out/x",
        "/root/out/y",
        "/tmp",
        "/var/tmp/x",
        "/srv",
        "/",
    )
    home = prepare(homes, *layers, volumes=(*volumes, "/root/data", "/root/data/x"), mountpoints=("/root/data",))
    merged = home.binds["/root"]
    assert list(home.binds) == [
        "/root",
        "/tmp",
        "/root/has",
        "/root/app/there",
        "/root/in/deep",
        "/root/new/er",
        "/root/open/data",
        "/var/tmp/x",
    ]
    assert home.binds["/root/in/deep"] == merged / "has/deep"
    assert run(home, "cat has/kept open/kept; echo x >new/er/y; echo x >has/deep/z; echo x >open/data/z") == "ko"
    assert owner(merged / "app") == owner(merged / "open") == (_NOBODY, _NOBODY)
    assert owner(merged / "app/there") == owner(merged / "open/data") == (_UID, _GID)
    for place in ("/tmp", "/var/tmp/x"):
        assert stat.S_IMODE(home.binds[place].stat().st_mode) == 0o1777
        assert home.binds[place].is_relative_to(home.written)


def test_a_volume_that_cannot_be_the_tasks_is_the_engines(homes: TaskHomes, tmp_path: Path) -> None:
    share = tmp_path / "share"
    share.mkdir()
    (share / "away").symlink_to(tmp_path)
    shares = {"/root/nfs": share, "/root/code": share}
    home = prepare(homes, shares=shares, volumes=("/root/nfs/away/x", "/root/code/new"))
    assert list(home.binds) == ["/root", "/root/code", "/root/nfs"]
    assert not (tmp_path / "x").exists()
    assert os.listdir(share) == ["away"]  # a snapshot of code gets no folders
    assert [note[:29] for note in home.notes] == ["The image's volume /root/nfs/", "The image's volume /root/code"]


def test_volumes_in_a_maze_of_folders_end_the_look_and_it_is_not_taken_again(
    homes: TaskHomes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One such start took a minute of a processor, and thirty kept a node from any start."""
    deep = "/".join(f"d{number}" for number in range(26))
    layers = make_layers(tmp_path, *({f"root/{deep}": folder()} for _ in range(20)))
    volumes = tuple(f"/root/{deep}/v{number}" for number in range(64))
    asked = []
    mark = image_tree._mark
    monkeypatch.setattr(image_tree, "_mark", lambda layer, path: (asked.append(path), mark(layer, path))[1])
    assert len(prepare(homes, *layers, volumes=volumes).binds) == 65
    assert len(asked) < 2_500
    homes.remove(_ATTEMPT)

    monkeypatch.setattr(image_tree, "_MOST_QUESTIONS", 1_000)
    asked.clear()
    for _ in range(2):
        with pytest.raises(HomeImpossible, match="take too long to look through"):
            prepare(homes, *layers, volumes=volumes)
    assert len(asked) == 1_000
    assert homes.written(_ATTEMPT) is None
    monkeypatch.setattr(image_tree, "_WITHIN_S", 0.0)
    with pytest.raises(HomeImpossible, match="take too long to look through"):
        prepare(homes, *layers)


@pytest.mark.parametrize("there", [True, False])
def test_a_tmp_that_is_a_link_into_the_home_is_open_to_all(homes: TaskHomes, tmp_path: Path, there: bool) -> None:
    """The launcher opens nothing across the home's mount: it kept its mode, or was missing."""
    inside = {"root/a/tmp": folder(0o700, _OTHER, _OTHER), "root/a/tmp/old": "old"} if there else {"root/x": ""}
    home = prepare(homes, *make_layers(tmp_path, {"tmp": link("/root/a/tmp"), **inside}))
    assert list(home.binds) == ["/root", "/root/a/tmp"]
    assert stat.S_IMODE(home.binds["/root/a/tmp"].stat().st_mode) == 0o1777
    assert list(home.binds["/root/a/tmp"].iterdir()) == []
    assert (home.binds["/root"] / "a/tmp").is_dir()
    for place in ("/root", "/root/nfs/tmp"):
        layers = make_layers(tmp_path / place.strip("/"), {"tmp": link(place), "root": folder()})
        assert "/root/nfs/tmp" not in prepare(homes, *layers, shares={"/root/nfs": tmp_path}).binds
