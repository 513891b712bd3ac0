"""What the shared mount lets a service do: found by a look, before users find it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway import mount_rights
from headway.errors import MountUnavailable
from headway.mount import Layout, ensure_home, prepare_local
from headway.mount_rights import MountRights, look_at_rights

needs_root = pytest.mark.root

# Root that may give nothing away, as on a server that squashes it. CAP_CHOWN is number 0.
_WITHOUT_CHOWN = """
import ctypes, json, os, sys
if sys.argv[1] == "drop":
    assert ctypes.CDLL(None).prctl(24, 0, 0, 0, 0) == 0
    os.execv(sys.executable, [sys.executable, "-c", os.environ["SCRIPT"], "go", *sys.argv[2:]])
from headway.errors import MountUnavailable
from headway.mount import Layout, ensure_home
from headway.mount_rights import look_at_rights
layout = Layout(sys.argv[2])
rights = look_at_rights(layout.root)
try:
    ensure_home(layout, "new", 20_009, 20_009)
    home = ""
except MountUnavailable as error:
    home = error.message
refused = rights.refuses(layout.home("ann"), "ann", 20_001, 20_001)
print(json.dumps([rights.sentence, rights.blocks_work, refused, home]))
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return prepare_local(tmp_path / "mount", "lab")


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def test_a_good_mount_is_left_as_it_was(layout: Layout) -> None:
    before = sorted(os.listdir(layout.root))
    assert look_at_rights(layout.root) == MountRights()
    assert sorted(os.listdir(layout.root)) == before


@needs_root
def test_root_that_may_not_give_files_away_is_told_and_homes_made_by_an_admin_are_used(layout: Layout) -> None:
    def look() -> list[str]:
        env = {**os.environ, "SCRIPT": _WITHOUT_CHOWN, "PYTHONPATH": os.getcwd()}
        words = [sys.executable, "-c", _WITHOUT_CHOWN, "drop", str(layout.root)]
        return list(json.loads(subprocess.run(words, check=True, env=env, capture_output=True).stdout))

    sentence, blocks, refused, home = look()
    assert f"On {layout.root} this service (uid 0) can't give a file to uid 20000 (Operation not permitted)" in sentence
    assert blocks
    assert f"`install -d -m 700 -o 20001 -g 20001 {layout.home('ann')}`" in refused
    assert f"The home of new, {layout.home('new')}, can't be given to uid 20009" in home
    assert not layout.home("new").exists(), "half a home would hide why"
    layout.home("ann").mkdir()
    os.chown(layout.home("ann"), 20_001, 20_001)
    assert look()[1:3] == [False, ""]


@needs_root
def test_a_squashed_root_is_named_with_its_uid_and_the_option(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users used to find it out, by four lost attempts and no word about root."""
    monkeypatch.setattr(os, "chown", refuse)
    monkeypatch.setattr(mount_rights, "squashed_uid", lambda path: 65_534)
    rights = look_at_rights(layout.root)
    assert "makes uid 0 of this machine uid 65534 (root_squash)" in rights.sentence
    assert "`no_root_squash`" in rights.sentence
    with pytest.raises(MountUnavailable, match=r"can't be given to uid 20001: .*uid 65534 \(root_squash\)"):
        ensure_home(layout, "ann", 20_001, 20_001)


@needs_root
def test_a_file_system_that_only_pretends_to_give_files_away_is_found(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "chown", lambda *_, **__: None)
    assert "it keeps its owner" in look_at_rights(layout.root).sentence


@pytest.mark.parametrize(
    ("place", "name", "words"),
    [
        (os, "link", "can't link a file (Operation not permitted), so code and datasets can't share their bytes"),
        (mount_rights.fcntl, "flock", "can't lock a file (Operation not permitted), so the image market"),
        (Path, "rename", "can't rename a file (Operation not permitted), so logs and uploads"),
    ],
)
def test_each_thing_that_is_refused_is_named_with_what_needs_it(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, place: object, name: str, words: str
) -> None:
    monkeypatch.setattr(place, name, refuse)
    rights = look_at_rights(layout.root)
    assert words in rights.sentence
    assert not rights.blocks_work
    assert rights.refuses(layout.home("ann"), "ann", 1, 1) == ""


@needs_root
def test_a_squashed_root_that_may_not_list_the_homes_keeps_no_work_away(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen on a GlusterFS volume: homes that an admin has made can be passed to, and not listed."""
    layout.home("ann").mkdir()
    os.chown(layout.home("ann"), 20_001, 20_001)
    monkeypatch.setattr(os, "chown", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    assert not look_at_rights(layout.root).blocks_work
    rights = look_at_rights(layout.root, ["ann", "bob"])
    assert rights.owners == {"ann": (20_001, 20_001)}
