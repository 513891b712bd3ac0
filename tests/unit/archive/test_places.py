"""What an image may not hold where something is mounted, as the upload's check sees it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from headway.archive import ArchiveRefused, ImageInfo
from tests.support.archives import Entry, TinyImage, docker_save, tiny_image

Take = Callable[..., ImageInfo]
Layers = Sequence[Sequence[Entry]]

_NFS_LINK = Entry("root/nfs", link_to="/headway/run")

REFUSED: dict[str, tuple[Layers, str]] = {
    "a link for the home": ([[_NFS_LINK]], "root/nfs is a link to '/headway/run'"),
    "a link for the code": ([[Entry("root/code", link_to="nfs")]], "/root/code is a link"),
    "a link for the datasets": ([[Entry("root/datasets", link_to="/tmp")]], "/root/datasets is a link"),
    "a link above": ([[Entry("root", link_to="/tmp")]], "/root is a link to '/tmp'"),
    "a link with dots": ([[Entry("./root//nfs", link_to="/tmp")]], "/root/nfs is a link"),
    "a file": ([[Entry("root/nfs", b"")]], "/root/nfs is no folder"),
    "a file above": ([[Entry("root", b"")]], "/root is no folder"),
    "a link of a lower layer": ([[_NFS_LINK], [Entry("other", b"")]], "/root/nfs is a link"),
    "a link over a folder": ([[Entry("root/nfs/x", b"")], [_NFS_LINK]], "/root/nfs is a link"),
    "a link that comes again": ([[_NFS_LINK], [Entry("root/.wh.nfs", b"")], [_NFS_LINK]], "/root/nfs is a link"),
    "a link through a link": (
        [[Entry("root"), Entry("a", link_to="root"), Entry("a/nfs", link_to="/tmp")]],
        "/root/nfs is a link",
    ),
    "another thing is removed": ([[_NFS_LINK], [Entry("root/.wh.code", b"")]], "/root/nfs is a link"),
    "processes": ([[Entry("proc", link_to="/root/nfs")]], "/proc is a link"),
    "devices": ([[Entry("dev", link_to="/root/nfs")]], "/dev is a link"),
    "the system": ([[Entry("sys", b"")]], "/sys is no folder"),
    "hosts in the home": ([[Entry("etc/hosts", link_to="../root/nfs/hosts")]], "/etc/hosts is a link"),
    "etc in the home": ([[Entry("etc", link_to="/root/nfs")]], "/etc is a link"),
    "a folder for a file": ([[Entry("etc/hosts/x", b"")]], "/etc/hosts is a folder"),
    "hosts that are themselves": ([[Entry("etc/hosts", link_to="hosts")]], "/etc/hosts is a link to 'hosts'"),
    "a folder for a table": ([[Entry("etc/passwd/x", b"")]], "/etc/passwd is no file"),
    "a table in the home": ([[Entry("etc/group", link_to="/root/nfs/group")]], "/etc/group is a link"),
    "a table that is itself": ([[Entry("etc/passwd", link_to="passwd")]], "/etc/passwd is a link to '/etc/passwd'"),
    "behind many names": (
        [[*(Entry(f"n{number}", b"") for number in range(31_000)), _NFS_LINK]],
        "/root/nfs is a link",
    ),
}
TAKEN: dict[str, Layers] = {
    "folders": [[Entry("root/nfs"), Entry("root/code"), Entry("root/datasets/mnist/x", b"")]],
    "files below": [[Entry("root/nfs/x", b""), Entry("root/nfs/y", link_to="/tmp")]],
    "links beside": [[Entry("root/nfs2", link_to="/root/nfs"), Entry("data", link_to="/root/datasets")]],
    "a link that was removed": [[_NFS_LINK], [Entry("root/.wh.nfs", b"")]],
    "a link whose folder was removed": [[_NFS_LINK], [Entry(".wh.root", b"")]],
    "a link behind an opaque folder": [[_NFS_LINK], [Entry("root"), Entry("root/.wh..wh..opq", b"")]],
    "a link behind an opaque root": [[_NFS_LINK], [Entry(".wh..wh..opq", b"")]],
    "a folder over a link": [[_NFS_LINK], [Entry("root/nfs")]],
    "a folder on the way over a link": [[_NFS_LINK], [Entry("root/nfs/x", b"")]],
    "resolv.conf as many have it": [[Entry("etc/resolv.conf", link_to="../run/systemd/resolve/stub-resolv.conf")]],
    "hosts in the root's folder": [[Entry("etc/hosts", link_to="/root/hosts")]],
    "a table elsewhere": [[Entry("etc/passwd", link_to="../usr/share/passwd")]],
    "the launcher's old place": [[Entry("headway", link_to="/root/nfs")]],
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_lead_a_mount_astray_is_refused(take: Take, left: Callable[[], list[str]], what: str) -> None:
    layers, why = REFUSED[what]
    with pytest.raises(ArchiveRefused) as refused:
        take(docker_save(tiny_image(*layers)))
    assert why in refused.value.message
    assert refused.value.message.endswith(".")
    assert left() == []


@pytest.mark.parametrize("what", TAKEN)
def test_what_is_harmless_is_taken(take: Take, what: str) -> None:
    assert take(docker_save(tiny_image(*TAKEN[what]))).layers


@pytest.mark.parametrize("spelling", ["Volumes", "volumes", "VOLUMES", "Volume\u017f"])
@pytest.mark.parametrize("outer", ["config", "Config", "CONFIG"])
def test_a_volume_in_the_way_is_refused_in_any_spelling(take: Take, outer: str, spelling: str) -> None:
    image = tiny_image(more={outer: {spelling: {"/root/nfs/x": {}}}, **({} if outer == "config" else {"config": None})})
    if outer != "config":
        image = _without_config(image)
    with pytest.raises(ArchiveRefused, match="volume at '/root/nfs/x'"):
        take(docker_save(image))


def _without_config(image: TinyImage) -> TinyImage:
    read = json.loads(image.config)
    del read["config"]
    return replace(image, config=json.dumps(read).encode())


@pytest.mark.parametrize(
    "volume", ["/data", "/root", "/tmp", "/root/nfs", "/root/nfs/", "//root/./code", "/root/datasets", "/root/.cache"]
)
def test_a_volume_beside_or_at_a_mount_is_taken(take: Take, volume: str) -> None:
    assert take(docker_save(tiny_image(settings={"Volumes": {volume: {}}}))).layers


def test_an_environment_that_no_program_can_have_is_refused(take: Take) -> None:
    with pytest.raises(ArchiveRefused, match="without a name"):
        take(docker_save(tiny_image(settings={"Env": ["=x"]})))


def test_an_upload_declares_so_many_volumes(take: Take) -> None:
    volumes = {f"/data/{number}": {} for number in range(65)}
    with pytest.raises(ArchiveRefused, match=r"declares 65 volumes; 64 may be\. Build it with fewer VOLUMEs\.$"):
        take(docker_save(tiny_image(settings={"Volumes": volumes})))
    volumes.popitem()
    assert take(docker_save(tiny_image(settings={"Volumes": volumes}))).layers


_FILE = [Entry("app", b"")]
_OTHER_DIR = "so no container starts in it. Build it with another WORKDIR."


@pytest.mark.parametrize(
    ("layers", "settings", "why"),
    [
        ([_FILE], {"WorkingDir": "/app"}, f"The image says WORKDIR /app, but /app is a file there, {_OTHER_DIR}"),
        ([_FILE], {"WorkingDir": "app//x/"}, f"The image says WORKDIR /app/x, but /app is a file there, {_OTHER_DIR}"),
        ([[Entry("app/x", b"")], [Entry("app", b"")]], {"WorkingDir": "/app"}, "The image says WORKDIR /app, but"),
        ([_FILE, [Entry(".wh.app", b"")]], {"WorkingDir": "/app"}, ""),
        ([_FILE, [Entry("app/x", b"")]], {"WorkingDir": "/app"}, ""),
        # Where a link leads, the launcher finds out.
        ([[Entry("app", link_to="b"), Entry("b")]], {"WorkingDir": "/app"}, ""),
        ([[Entry("b", b"")]], {"WorkingDir": "/app"}, ""),
        ([_FILE], {"WorkingDir": "/" + "a/" * 40_000}, ""),
        (
            [_FILE],
            {"Env": ["A=b\0c"]},
            "The image's environment variable 'A' holds a zero byte. Build it without this ENV.",
        ),
        (
            [_FILE],
            {"Entrypoint": ["/run", "a\0b"]},
            "The image says ENTRYPOINT 'a\\x00b', which holds a zero byte. Build it without it.",
        ),
        ([_FILE], {"User": "a\0b"}, "The image says USER 'a\\x00b', which holds a zero byte. Build it without it."),
        ([_FILE], {"Cmd": "a\0b"}, ""),  # no task runs it
        (
            [_FILE],
            {"Env": [f"A{number}={'x' * 100_000}" for number in range(11)]},
            "The image's ENV has 1074 KiB in 11 variables; 1024 KiB may be, or no program can start. Build it with "
            "less, such as a file instead.",
        ),
        # An entry without "=" takes an inherited variable away; programs and users count where a task asks for them.
        ([_FILE], {"Env": ["A", "B=1"], "Entrypoint": ["/nothing"], "User": "nobody-knows", "Cmd": []}, ""),
    ],
)
def test_what_a_config_says_is_held_against_the_files(
    take: Take, layers: Layers, settings: dict[str, object], why: str
) -> None:
    archive = docker_save(tiny_image(*layers, settings=settings))
    if not why:
        assert take(archive).layers
        return
    with pytest.raises(ArchiveRefused) as refused:
        take(archive)
    assert refused.value.message.startswith(why)
