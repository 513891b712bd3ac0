"""Images of the tests, made without a registry."""

from __future__ import annotations

import io
import os
import platform
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import docker

from tests.support.compiling import compiled

# A shell, small programs, /root closed as in real images, and a user.
BUSYBOX = "headway-test/busybox:1"
# One static program, /static, and nothing else.
STATIC = "headway-test/static:1"

_REPOSITORY = Path(__file__).resolve().parent.parent.parent
_PASSWD = """root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/bin/false
app:x:1000:1000:The app,,,:/home/app:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
"""
_GROUP = """root:x:0:
daemon:x:1:
video:x:44:app
app:x:1000:
nogroup:x:65534:
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of an image's only layer."""

    path: str
    content: bytes | None = None  # None: a folder
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    link_to: str = ""


def layer(entries: Sequence[Entry]) -> bytes:
    """A tar of the entries, the same bytes for the same entries."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry in entries:
            info = tarfile.TarInfo(entry.path)
            info.mode, info.uid, info.gid = entry.mode, entry.uid, entry.gid
            if entry.link_to:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link_to
                archive.addfile(info)
            elif entry.content is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(entry.content)
                archive.addfile(info, io.BytesIO(entry.content))
    return buffer.getvalue()


def import_image(client: docker.DockerClient, name: str, content: bytes, changes: Sequence[str] = ()) -> str:
    """Give a layer a name in the engine. ``changes`` are lines of a Dockerfile, as in `docker import -c`."""
    repository, _, tag = name.rpartition(":")
    answer = client.api.import_image_from_data(content, repository=repository, tag=tag, changes=list(changes))
    if "error" in answer:
        raise RuntimeError(f"the engine refused {name}: {answer}")
    return name


def busybox_entries() -> list[Entry]:
    """The content of :data:`BUSYBOX`, for images that are a little different from it."""
    program = Path("/bin/busybox").read_bytes()
    applets = subprocess.run(["/bin/busybox", "--list"], check=True, capture_output=True, text=True).stdout.split()
    entries = [Entry(folder) for folder in ("bin", "dev", "etc", "home", "proc", "sys", "usr", "usr/bin", "var")]
    entries += [
        Entry("tmp", mode=0o1777),
        Entry("root", mode=0o700),
        Entry("root/from-image", b"kept\n", mode=0o644),
        Entry("home/app", uid=1000, gid=1000),
        Entry("etc/passwd", _PASSWD.encode(), mode=0o644),
        Entry("etc/group", _GROUP.encode(), mode=0o644),
        Entry("bin/busybox", program),
    ]
    return entries + [Entry(f"bin/{name}", link_to="busybox") for name in applets if name != "busybox"]


def import_busybox(
    client: docker.DockerClient,
    name: str = BUSYBOX,
    *,
    more: Sequence[Entry] = (),
    changes: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> str:
    """The busybox image, or one made from it with more files and other settings."""
    settings = ["ENV PATH=/bin:/usr/bin", 'CMD ["/bin/sh"]']
    settings += [f"ENV {key}={value}" for key, value in (environment or {}).items()]
    return import_image(client, name, layer([*busybox_entries(), *more]), [*settings, *changes])


def static_program() -> Path:
    """The program of :data:`STATIC`: verbs print, exit, sleep, id, env, write."""
    target = f"{platform.machine()}-linux-musl"
    return compiled(Path(__file__).with_name("static.c"), "static", "-target", target, "-static", "-Os", "-s")


def import_static(client: docker.DockerClient, name: str = STATIC, *, changes: Sequence[str] = ()) -> str:
    """The image from scratch, with the settings of ``changes``."""
    return import_image(client, name, layer([Entry("static", static_program().read_bytes())]), changes)


def build_base(engine_url: str) -> None:
    """Make base/python:1 with the project's own tool and give it to the engine."""
    done = subprocess.run(
        [_REPOSITORY / "images" / "build-base", "--archive"],
        env={**os.environ, "DOCKER_HOST": engine_url},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"images/build-base failed: {done.stderr}")
