"""Why a process was never started, in the words of whoever asked: the image's config, or the job's fields."""

from __future__ import annotations

from typing import Any

import pytest

from headway.jobfile.spec import Entrypoint, RunAs, Shell
from headway.model.reasons import EndReason, EndWord
from tests.unit.worker.builders import a_launch
from worker.attempt.start_faults import asked_of, start_fault
from worker.box import BoxEnd, EndRecord, StartStage
from worker.ports import LocalImage

BAD, COMMAND, PLATFORM = EndWord.IMAGE_BAD, EndWord.COMMAND_NOT_FOUND, EndWord.START_FAILED
EXEC, WORKDIR, USER, SETUP = StartStage.EXEC, StartStage.WORKDIR, StartStage.USER, StartStage.SETUP
IMAGE = LocalImage("sha256:1", entrypoint=("/app/run", "-x"), working_dir="/app", user="app:staff")
AS_ENTRY: dict[str, Any] = {"command": ("9",), "entrypoint": Entrypoint.IMAGE}
AS_USER: dict[str, Any] = {"user": RunAs.IMAGE}
LIST: dict[str, Any] = {"command": ("/app/run", "9")}
SHELL = "The shell of the job's `command` can't be run"
IS_FILE = "/app is a file there"
REBUILD = "Build it with a program that runs, or leave `entrypoint: image` out of the job."
SAYS = 'The image says ENTRYPOINT ["/app/run", "-x"], but'
OTHER_DIR = "Build it with another working folder, or set the job's `working_dir`."
OTHER_USER = "Build it with that line, or leave `user: image` out of the job."


def fault(
    stage: StartStage, errno: str, said: str | None, *, image: LocalImage | None = IMAGE, **task: Any
) -> EndReason:
    record = EndRecord(BoxEnd.START_FAILED, errno=errno, error=said, stage=stage)
    return start_fault(record, "gpu-1", asked_of(a_launch(**task), image))


@pytest.mark.parametrize(
    ("stage", "errno", "said", "task", "word", "detail"),
    [
        # The image's ENTRYPOINT.
        (EXEC, "ENOENT", "/app/run: No such file", AS_ENTRY, BAD, f"{SAYS} there is no program '/app/run' in it. "),
        (
            EXEC,
            "ENOENT",
            "the first line of /app/run names the interpreter /bin/bash, which is not there",
            AS_ENTRY,
            BAD,
            f"{SAYS} the first line of /app/run names the interpreter /bin/bash, which is not there. ",
        ),
        (
            EXEC,
            "ENOEXEC",
            "/app/run is a program for arm64 machines, and this one is amd64 (Exec format error)",
            AS_ENTRY,
            BAD,
            f"{SAYS} /app/run is a program for arm64 machines, and this one is amd64. ",
        ),
        (
            EXEC,
            "EACCES",
            "/app/run is not executable, its mode is 0644 (Permission denied)",
            AS_ENTRY,
            BAD,
            f"{SAYS} /app/run is not executable, its mode is 0644. ",
        ),
        # The job's command.
        (EXEC, "ENOENT", "/app/run: No such file", LIST, COMMAND, "The image has no program '/app/run'."),
        (EXEC, "ENOENT", "x", {}, COMMAND, "This image has no shell. Give the command as a list."),
        (
            EXEC,
            "ENOENT",
            "no program bash in the PATH /bin",
            {"shell": Shell.BASH},
            COMMAND,
            "This image has no bash. Use `shell: sh`, or give the command as a list.",
        ),
        (
            EXEC,
            "ENOENT",
            "/bin/sh needs the loader /lib64/ld.so, which is not there: it was built for another system or libc",
            {},
            COMMAND,
            "The shell of the job's `command` can't be run: /bin/sh needs the loader /lib64/ld.so, which is not there: "
            "it was built for another system or libc.",
        ),
        (
            EXEC,
            "ENOEXEC",
            "/app/run is a script without a #! line, or no program (Exec format error)",
            LIST,
            COMMAND,
            "The program of the job's `command` can't be run: /app/run is a script without a #! line, or no program.",
        ),
        (
            EXEC,
            "EPERM",
            "the file /bin/ping asks for capabilities, which no task has (Operation not permitted)",
            {"command": ("/bin/ping",)},
            COMMAND,
            "The program of the job's `command` can't be run: the file /bin/ping asks for capabilities, which no task "
            "has.",
        ),
        (
            EXEC,
            "E2BIG",
            "Argument list too long",
            LIST,
            COMMAND,
            "The arguments and environment of the job's `command` and `env` are too long. Put them into a file.",
        ),
        # The working folder.
        (
            WORKDIR,
            "ENOTDIR",
            "/app is a file there",
            {},
            BAD,
            "The image says WORKDIR /app, but /app is a file there. ",
        ),
        (
            WORKDIR,
            "EACCES",
            "the user 20000 may not enter /app, its owner is 0 and its mode 0700",
            {},
            BAD,
            "The image says WORKDIR /app, but the user 20000 may not enter /app, its owner is 0 and its mode 0700. ",
        ),
        (
            WORKDIR,
            "ENOTDIR",
            "/data is a file there",
            {"working_dir": "/data"},
            BAD,
            "The job's `working_dir` says /data, but /data is a file there. Name another working folder; one that is "
            "not there is made.",
        ),
        # The user.
        (
            USER,
            "ENOENT",
            "the image's /etc/group has no group staff",
            AS_USER,
            BAD,
            "The image says USER app:staff, but its /etc/group has no group staff. ",
        ),
        (
            USER,
            "EINVAL",
            "the image's /etc/passwd has no ids for the user app:staff",
            AS_USER,
            BAD,
            "The image says USER app:staff, but its /etc/passwd has no ids for the user app:staff. ",
        ),
        # Faults of a machine: they are tried elsewhere.
        (USER, "EINVAL", "the user 20000 can't be taken on", {}, PLATFORM, "the user 20000 can't be taken on."),
        (EXEC, "EIO", "/app/run: I/O error", AS_ENTRY, PLATFORM, "/app/run: I/O error."),
        (WORKDIR, "ESTALE", "/app: Stale file handle", {}, PLATFORM, "/app: Stale file handle."),
        (SETUP, "EACCES", "the streams", {}, PLATFORM, "the streams."),
        *(
            (WORKDIR, errno, "there is no /d/1", {"working_dir": "/d/1"}, PLATFORM, "there is no /d/1.")
            for errno in ("ENOSPC", "EDQUOT", "EROFS")
        ),
        (
            WORKDIR,
            "EROFS",
            "there is no /root/datasets/a/x",
            {"working_dir": "/root/datasets/a/x"},
            BAD,
            "The job's `working_dir` says /root/datasets/a/x, but there is no /root/datasets/a/x. Name another working "
            "folder; one that is not there is made.",
        ),
        (EXEC, "ENOEXEC", "/a\u2028\x1bb is empty", {}, COMMAND, f"{SHELL}: /a\ufffd\ufffdb is empty."),
        # A name with a word of the launcher in it.
        *(
            (EXEC, "ENOENT", said, {"command": (program,)}, COMMAND, f"The image has no program {program!r}.")
            for program, said in (
                ("data-loader", "no program data-loader in the PATH /opt/interpreter/which is not there"),
                ("/app/loader.py", "/app/loader.py: No such file or directory"),
            )
        ),
        (
            EXEC,
            "ENOENT",
            "no program bash in the PATH /opt/downloader/bin",
            {"shell": Shell.BASH},
            COMMAND,
            "This image has no bash. Use `shell: sh`, or give the command as a list.",
        ),
        (WORKDIR, "EACCES", "/root/code", {"code": "sha256:1"}, PLATFORM, "/root/code."),
    ],
)
def test_it_is_said_whose_fault_it_is(
    stage: StartStage, errno: str, said: str, task: dict[str, Any], word: EndWord, detail: str
) -> None:
    reason = fault(stage, errno, said, **task)
    if word is PLATFORM:
        want = f"Its process could not be started on gpu-1: {detail}"
    elif detail.endswith(" "):
        want = detail + {EXEC: REBUILD, WORKDIR: OTHER_DIR, USER: OTHER_USER}[stage]
    else:
        want = detail
    assert (reason.word, reason.detail) == (word, want)
    assert reason.platform_retry == (word is PLATFORM), "an image is the same on every machine"


def test_an_environment_that_is_too_long_is_that_of_who_made_it_so() -> None:
    image = LocalImage("sha256:1", env=(f"A={'x' * 1_048_573}",))
    reason = fault(EXEC, "E2BIG", "Argument list too long", image=image)
    assert (reason.word, reason.detail) == (
        BAD,
        "The image's ENV has 1MiB, too much for a program to be started with. Build it with less.",
    )


def test_after_a_restart_of_the_worker_nothing_is_made_up() -> None:
    """The image's config is not known then: an empty user and the shell's name used to stand for it."""
    assert fault(EXEC, "ENOENT", "/app/run: No such file", image=None, **AS_ENTRY).detail == (
        "What the image's ENTRYPOINT and the job's `command` name can't be run: /app/run: No such file."
    )
    assert fault(USER, "ENOENT", "the image's /etc/passwd has no user app", image=None, **AS_USER).detail == (
        "The image's USER has no sense: its /etc/passwd has no user app."
    )
    assert fault(WORKDIR, "ENOTDIR", "/app is a file there", image=None).detail == (
        "The image's working folder can't be entered: /app is a file there."
    )


def test_an_entrypoint_of_one_empty_word_is_none() -> None:
    """Engines run it. It used to end as "The image has no program 'sh'"."""
    asked = asked_of(a_launch(command=("echo",), entrypoint=Entrypoint.IMAGE), LocalImage("x", entrypoint=("",)))
    assert (asked.program, asked.entrypoint) == ("echo", ())
    empty = LocalImage("x", entrypoint=("", "y"))
    assert fault(EXEC, "ENOENT", "no program  in the PATH", image=empty, **AS_ENTRY).detail == (
        f'The image says ENTRYPOINT ["", "y"], but its first word is empty. {REBUILD}'
    )
