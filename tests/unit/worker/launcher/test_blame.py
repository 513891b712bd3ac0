"""Which file of an image is at fault when its program can't be run: real files, and the real launcher."""

from __future__ import annotations

import os
import platform
import re
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.launcher.runs import PYTHON, Runs
from worker.box import StartStage


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short name: long ones are cut in a record."""
    with tempfile.TemporaryDirectory(prefix="hw") as name:
        yield Path(name)


def _elf(machine: int) -> bytes:
    """The head of a program, with nothing to run behind it."""
    return (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 0, 0, 0, 0)
    )


_OURS = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
_OTHERS, _OTHERS_NUMBER = ("arm64", 183) if _OURS == "amd64" else ("amd64", 62)


@pytest.mark.parametrize(
    ("content", "mode", "want"),
    [
        (b"#!/no/such -x\n", 0o755, "the first line of P names the interpreter /no/such, which is not there"),
        (
            b"#!/bin/sh\r\n",
            0o755,
            "the first line of P ends as on Windows, with a carriage return, so no interpreter /bin/sh is found",
        ),
        (
            b"#!/proc/version\n",
            0o755,
            "the first line of P names the interpreter /proc/version, which is there and can't be run "
            "(Permission denied)",
        ),
        (
            _elf(_OTHERS_NUMBER),
            0o755,
            f"P is a program for {_OTHERS} machines, and this one is {_OURS} (Exec format error)",
        ),
        (b"\x7fELFnonsense", 0o755, "P is a damaged program (Exec format error)"),
        (b"#!\n", 0o755, "the first line of P is #! and names no interpreter (Exec format error)"),
        (b"#! \r\n", 0o755, "the first line of P is #! and names no interpreter (No such file or directory)"),
        (b"MZ\x90", 0o755, "P is a program for Windows (Exec format error)"),
        (b"\xcf\xfa\xed\xfe", 0o755, "P is a program for macOS (Exec format error)"),
        (b"", 0o755, "P is empty (Exec format error)"),
        (b"echo x\n", 0o755, "P is a script without a #! line, or no program (Exec format error)"),
        (b"#!/bin/sh\n", 0o644, "P is not executable, its mode is 0644 (Permission denied)"),
        (None, 0o755, "P is a folder (Permission denied)"),
    ],
)
def test_the_file_at_fault_is_named(launch: Runs, folder: Path, content: bytes | None, mode: int, want: str) -> None:
    program = folder / "p"
    if content is None:
        program.mkdir()
    else:
        program.write_bytes(content)
    program.chmod(mode)
    for args in ([str(program)], ["p"]):
        end = launch(*args, env={"PATH": f"/nowhere:{folder}"}).end()
        assert end.stage is StartStage.EXEC
        assert end.error == re.sub(r"\bP\b", str(program), want)


def test_a_loader_that_is_not_there_is_named(launch: Runs, folder: Path) -> None:
    """A program that was built against another libc: everybody reads "No such file" as if it were the program."""
    content = Path(PYTHON).resolve().read_bytes()
    at = content.index(b"/ld-linux-")
    program = folder / "p"
    program.write_bytes(content[:at] + b"/ld-nosuch-" + content[at + 11 :])
    program.chmod(0o755)
    end = launch(str(program)).end()
    assert end.errno == "ENOENT"
    assert end.error is not None
    assert re.fullmatch(
        rf"{program} needs the loader /lib\S*/ld-nosuch-\S+, which is not there: it was built for another "
        "system or libc",
        end.error,
    )


def test_a_file_that_asks_for_capabilities_is_named(launch: Runs, folder: Path) -> None:
    """As ping has them in many images. It used to be the machine's fault, and was tried on others."""
    program = folder / "p"
    program.write_bytes(Path("/usr/bin/env").resolve().read_bytes())
    program.chmod(0o755)
    net_raw, effective = 1 << 13, 0x02000001
    os.setxattr(program, "security.capability", struct.pack("<IIIII", effective, net_raw, 0, 0, 0))
    end = launch(str(program), drop_caps=True).end()
    assert (end.stage, end.errno) == (StartStage.EXEC, "EPERM")
    assert end.error == f"the file {program} asks for capabilities, which no task has (Operation not permitted)"


def test_names_that_are_no_utf8_or_cut_inside_a_letter_are_valid_text(launch: Runs, folder: Path) -> None:
    program = folder / "p"
    program.write_bytes(b"#!/opt/caf\xe9/\x1b[31m/python\n")
    program.chmod(0o755)
    said = launch(str(program)).end().error
    assert said == (
        f"the first line of {program} names the interpreter /opt/caf\ufffd/\x1b[31m/python, which is not there"
    )
    for cut in range(2):
        program = folder / ("x" * cut + "\u043c\u043e\u0434" * 25)
        program.write_bytes(b"echo\n")
        program.chmod(0o755)
        (launch(str(program)).end().error or "").encode()


def test_a_working_folder_that_can_not_be_made_says_why(launch: Runs, folder: Path) -> None:
    """A chdir says that it is not there. The mkdir knows that the disk is full."""
    full = folder / "full"
    full.mkdir()
    mounted = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o nr_inodes=1 none {full} && exec "$0" "$@"']
    end = launch.launch(launch.prepare(["true"], workdir=str(full / "run1" / "a")), prefix=mounted).end()
    assert (end.stage, end.errno) == (StartStage.WORKDIR, "ENOSPC")
    assert end.error == f"there is no {full}/run1, and it can't be made (No space left on device)"
