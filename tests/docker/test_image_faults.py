"""A dozen odd images in a real engine: each fault is told once, as what it is, in the words of who asked for it."""

from __future__ import annotations

import platform
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.docker.conftest import Jobs, a_task
from tests.support import images
from tests.support.images import BUSYBOX, Entry

pytestmark = pytest.mark.docker

_OURS, _OTHERS, _NUMBER = {"x86_64": ("amd64", "arm64", 183), "aarch64": ("arm64", "amd64", 62)}[platform.machine()]
_ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, _NUMBER, 1, 0, 64, 0, 0, 64, 56, 0, 0, 0, 0)
_ENTRY = 'ENTRYPOINT ["/app/run","-x"]'
_SAYS = 'The image says ENTRYPOINT ["/app/run", "-x"], but'
_REBUILD = "Build it with a program that runs, or leave `entrypoint: image` out of the job."
_OTHER_DIR = "Build it with another working folder, or set the job's `working_dir`."
_OTHER_USER = "Build it with that line, or leave `user: image` out of the job."
_BAD = "Change the image, or what the job asks of it."
_COMMAND = "The image lacks this program; check the command and PATH."


def _run(content: bytes, mode: int = 0o755) -> list[Entry]:
    return [Entry("app"), Entry("app/run", content, mode=mode)]


def _cases() -> dict[str, tuple[list[Entry], list[str], dict[str, Any], str, str]]:
    """By name: more files, settings of the image, fields of the task, the end word, the detail."""
    entry: dict[str, Any] = {"command": ["9"], "entrypoint": "image"}
    direct: dict[str, Any] = {"command": ["/app/run"]}
    as_user: dict[str, Any] = {"user": "image"}
    return {
        "no-entry": ([], [_ENTRY], entry, "image_bad", f"{_SAYS} there is no program '/app/run' in it. {_REBUILD}"),
        "interpreter": (
            _run(b"#!/opt/python3\n"),
            [_ENTRY],
            entry,
            "image_bad",
            f"{_SAYS} the first line of /app/run names the interpreter /opt/python3, which is not there. {_REBUILD}",
        ),
        "mode": (
            _run(b"#!/bin/sh\n", 0o644),
            [_ENTRY],
            entry,
            "image_bad",
            f"{_SAYS} /app/run is not executable, its mode is 0644. {_REBUILD}",
        ),
        "machine": (
            _run(_ELF),
            [_ENTRY],
            entry,
            "image_bad",
            f"{_SAYS} /app/run is a program for {_OTHERS} machines, and this one is {_OURS}. {_REBUILD}",
        ),
        "windows-script": (
            _run(b"#!/bin/sh\r\necho\r\n"),
            [],
            direct,
            "command_not_found",
            "The program of the job's `command` can't be run: the first line of /app/run ends as on Windows, with a "
            "carriage return, so no interpreter /bin/sh is found.",
        ),
        "no-first-line": (
            _run(b"echo well\n"),
            [],
            direct,
            "command_not_found",
            "The program of the job's `command` can't be run: /app/run is a script without a #! line, or no program.",
        ),
        "libc": (
            _run(Path("/usr/bin/env").resolve().read_bytes()),
            [],
            direct,
            "command_not_found",
            "",
        ),
        "workdir-file": (
            [Entry("app", b"")],
            ["WORKDIR /app"],
            {},
            "image_bad",
            f"The image says WORKDIR /app, but /app is a file there. {_OTHER_DIR}",
        ),
        "workdir-closed": (
            [Entry("closed", mode=0o700)],
            ["WORKDIR /closed"],
            {},
            "image_bad",
            "The image says WORKDIR /closed, but the user 20000 may not enter /closed, its owner is 0 and its mode "
            f"0700. {_OTHER_DIR}",
        ),
        "jobs-workdir": (
            [],
            [],
            {"working_dir": "/etc/passwd"},
            "image_bad",
            "The job's `working_dir` says /etc/passwd, but /etc/passwd is a file there. Name another working folder; "
            "one that is not there is made.",
        ),
        "no-user": (
            [],
            ["USER nosuch"],
            as_user,
            "image_bad",
            f"The image says USER nosuch, but its /etc/passwd has no user nosuch. {_OTHER_USER}",
        ),
        "no-group": (
            [],
            ["USER app:staff"],
            as_user,
            "image_bad",
            f"The image says USER app:staff, but its /etc/group has no group staff. {_OTHER_USER}",
        ),
        "long-line": (
            [Entry("etc/passwd", b"x" * 70_000 + b":x:5:5::/:/bin/sh\n", mode=0o644)],
            [],
            {},
            "image_bad",
            "A line of the image's /etc/passwd or /etc/group is longer than 64 KiB, and the engine reads them before a "
            "start. Build it with shorter lines.",
        ),
        # These run, as engines run them.
        "empty-entry": ([], ['ENTRYPOINT [""]'], {"command": ["echo", "well"], "entrypoint": "image"}, "", ""),
        "tmp-file": ([Entry("tmp", b"")], [], {}, "", ""),
        "own-workdir": ([Entry("app", b"")], ["WORKDIR /app"], {"working_dir": "/home"}, "", ""),
    }


@pytest.mark.timeout(300)
def test_each_fault_is_told_once_in_the_words_of_who_asked(jobs: Jobs) -> None:
    cases, tasks = _cases(), []
    client = jobs.engine.client()
    try:
        for name, (more, changes, fields, _, _) in cases.items():
            image = BUSYBOX
            if more or changes:
                paths = {entry.path for entry in more}
                kept = [entry for entry in images.busybox_entries() if entry.path not in paths]
                content = images.layer([*kept, *more])
                image = images.import_image(
                    client, f"headway-test/fault-{name}:1", content, ["ENV PATH=/bin", *changes]
                )
            tasks.append(a_task(**{"command": "true", "image": image, "name": name, "retries": 2, **fields}))
    finally:
        client.close()
    jobs.cluster.client.change_user("admin", {"may_use_image_user": True})
    try:
        job = jobs.run(*tasks, within_s=200)
    finally:
        jobs.cluster.client.change_user("admin", {"may_use_image_user": False})
    ends = {task["name"]: task for task in job["tasks"]}
    for name, (_, _, _, word, detail) in cases.items():
        task = ends[name]
        reason = task["reason"] or {}
        assert len(task["attempts"]) == 1, (name, reason)
        if not word:
            assert task["state"] == "SUCCEEDED", (name, reason)
            continue
        advice = _BAD if word == "image_bad" else _COMMAND
        assert reason["word"] == word, (name, reason)
        if detail:
            assert reason["sentence"] == f"{detail} {advice}"
        else:
            assert "/app/run needs the loader /lib" in reason["sentence"]
            assert "which is not there: it was built for another system or libc." in reason["sentence"]
