"""Why a task's process was never started, in the words of whoever asked for what failed: the job or the image. Pure.

The launcher knows which file is at fault. Who named it is known here alone. What the image's config says is the image's
fault, and what the job's own fields say is the job's. Neither is the platform's, and no other machine would do better.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from headway.jobfile.spec import Entrypoint, RunAs
from headway.model.reasons import EndReason, EndWord
from headway.safe_text import printable_text
from headway.units import format_size

from ..box import EndRecord, StartStage
from ..container_paths import DATASETS_DIR
from ..model import LaunchAttempt
from ..ports import LocalImage
from .launch_spec import argv, image_entrypoint, working_dir

_QUOTED = 200
# What the system's own words add to the launcher's.
_ERRNO_WORDS = re.compile(r" \((Exec format error|Permission denied|Operation not permitted)\)$")
# Faults of a machine, whoever asked.
_OF_MACHINE = frozenset(
    {"EIO", "ENOMEM", "EAGAIN", "EMFILE", "ENFILE", "ESTALE", "ENOTCONN", "ETIMEDOUT", "ETXTBSY", "ENOSPC", "EDQUOT"}
)
# The launcher's words for a file that is there while something that it needs is not. At the end of its sentence, since
# the names before them may hold any word.
_IS_THERE = re.compile(
    r"(?:which is not there|interpreter \S* is found|for another system or libc|loader \(its interpreter\) is not"
    r"|the interpreter it names, or its loader, is not|which is there and can't be run(?: \([^()]*\))?)$"
)
_OF_PROGRAM = frozenset(
    {"ENOENT", "ENOTDIR", "EACCES", "EPERM", "ENOEXEC", "ELOOP", "ELIBBAD", "EISDIR", "EINVAL", "ENAMETOOLONG"}
)
_LARGE_ENV_BYTES = 512 << 10


@dataclass(frozen=True, slots=True)
class StartAsked:
    """What was to be started, and who asked for it. Where the image is not known, its words are empty."""

    program: str = ""  # first word of the argv
    shell: str = ""  # "sh" or "bash" where the command is a script
    entrypoint: tuple[str, ...] = ()  # of the image, where the job asks for it
    entrypoint_unknown: bool = False
    working_dir: str = "/"
    job_says_dir: bool = False
    code_says_dir: bool = False  # it is the job's code, which Headway mounts
    image_user: str = ""  # the image's USER, where the job asks for it
    as_account: bool = True
    image_env_bytes: int = 0


def asked_of(launch: LaunchAttempt, known: LocalImage | None) -> StartAsked:
    """``known``: the image with its config. None: the Worker was restarted since."""
    spec, image = launch.spec, known or LocalImage("")
    words = argv(launch, image)
    entrypoint = image_entrypoint(image) if spec.entrypoint is Entrypoint.IMAGE else ()
    is_script = isinstance(spec.command, str) and not entrypoint
    as_account = spec.user is RunAs.ACCOUNT
    return StartAsked(
        program=words[0] if words else "",
        shell=(spec.shell.value if spec.shell else "sh") if is_script else "",
        entrypoint=entrypoint,
        entrypoint_unknown=known is None and spec.entrypoint is Entrypoint.IMAGE,
        working_dir=working_dir(launch, image),
        job_says_dir=bool(spec.working_dir),
        code_says_dir=bool(spec.code) and not spec.working_dir,
        image_user="" if as_account else image.user,
        as_account=as_account,
        image_env_bytes=sum(len(entry) + 1 for entry in image.env),
    )


def start_fault(record: EndRecord, node: str, asked: StartAsked) -> EndReason:
    """The end of an attempt whose program never ran, by what its launcher wrote down."""
    errno, said = record.errno or "unknown error", _ERRNO_WORDS.sub("", record.error or "")
    reason: EndReason | None = None
    if record.stage is StartStage.IMAGE:
        reason = EndReason(EndWord.IMAGE_BAD, detail=f"It was not started: {said or errno}.")
    elif errno not in _OF_MACHINE and not _is_read_only(errno, asked):
        match record.stage:
            case StartStage.EXEC:
                reason = _of_program(errno, said, asked)
            case StartStage.WORKDIR:
                reason = _of_working_dir(errno, said, asked)
            case StartStage.USER:
                reason = _of_user(errno, said, asked)
    reason = reason or EndReason(
        EndWord.START_FAILED, detail=f"Its process could not be started on {node}: {record.error or errno}."
    )
    # Names of files and an image's config may hold anything.
    return replace(reason, detail=printable_text(reason.detail))


def _is_read_only(errno: str, asked: StartAsked) -> bool:
    """Whether a file system went read-only by itself. A dataset always is."""
    return errno == "EROFS" and not f"{asked.working_dir}/".startswith(f"{DATASETS_DIR}/")


def _of_program(errno: str, said: str, asked: StartAsked) -> EndReason | None:
    if errno == "E2BIG":
        return _too_long(asked)
    if errno not in _OF_PROGRAM:
        return None
    if asked.entrypoint_unknown:
        detail = f"What the image's ENTRYPOINT and the job's `command` name can't be run: {said or errno}."
        return EndReason(EndWord.IMAGE_BAD, detail=detail)
    absent = errno in ("ENOENT", "ENOTDIR") and not _is_there(said)
    if asked.entrypoint:
        if not asked.program:
            why = "its first word is empty"
        elif absent:
            why = f"there is no program {asked.program!r} in it"
        else:
            why = said or f"{asked.program!r} can't be run ({errno})"
        return EndReason(
            EndWord.IMAGE_BAD,
            detail=f"The image says ENTRYPOINT {_quoted(asked.entrypoint)}, but {why}. Build it with a program that "
            "runs, or leave `entrypoint: image` out of the job.",
        )
    if absent and asked.shell:
        return EndReason(EndWord.COMMAND_NOT_FOUND, detail=_no_shell(asked.shell))
    if absent:
        return EndReason(EndWord.COMMAND_NOT_FOUND, detail=f"The image has no program {asked.program!r}.")
    who = "The shell of the job's `command`" if asked.shell else "The program of the job's `command`"
    return EndReason(EndWord.COMMAND_NOT_FOUND, detail=f"{who} can't be run: {said or _by_number(errno, asked)}.")


def _is_there(said: str) -> bool:
    """Whether the launcher found the file, and something that it needs is missing."""
    return not said.startswith("no program ") and bool(_IS_THERE.search(said))


def _by_number(errno: str, asked: StartAsked) -> str:
    """In place of words that a launcher of an older Headway has not written."""
    if errno == "EACCES":
        return f"{asked.program!r} is not executable in the image"
    return "it is for another architecture, or a script without a #! line"


def _too_long(asked: StartAsked) -> EndReason:
    if asked.image_env_bytes >= _LARGE_ENV_BYTES:
        return EndReason(
            EndWord.IMAGE_BAD,
            detail=f"The image's ENV has {format_size(asked.image_env_bytes)}, too much for a program to be started "
            "with. Build it with less.",
        )
    return EndReason(
        EndWord.COMMAND_NOT_FOUND,
        detail="The arguments and environment of the job's `command` and `env` are too long. Put them into a file.",
    )


def _of_working_dir(errno: str, said: str, asked: StartAsked) -> EndReason | None:
    why = said or f"it can't be entered ({errno})"
    if asked.code_says_dir:
        return None
    if asked.job_says_dir:
        detail = (
            f"The job's `working_dir` says {asked.working_dir}, but {why}. Name another working folder; one that is "
            "not there is made."
        )
    elif asked.working_dir == "/":
        detail = f"The image's working folder can't be entered: {why}."
    else:
        detail = (
            f"The image says WORKDIR {asked.working_dir}, but {why}. Build it with another working folder, or set the "
            "job's `working_dir`."
        )
    return EndReason(EndWord.IMAGE_BAD, detail=detail)


def _of_user(errno: str, said: str, asked: StartAsked) -> EndReason | None:
    if asked.as_account or errno == "EPERM":
        return None
    why = said.replace("the image's ", "its ")
    if not why:
        why = "it has no user or group of that name" if errno == "ENOENT" else f"it can't be taken on ({errno})"
    if not asked.image_user:
        return EndReason(EndWord.IMAGE_BAD, detail=f"The image's USER has no sense: {why}.")
    return EndReason(
        EndWord.IMAGE_BAD,
        detail=f"The image says USER {asked.image_user}, but {why}. Build it with that line, or leave `user: image` "
        "out of the job.",
    )


def _no_shell(shell: str) -> str:
    if shell == "bash":
        return "This image has no bash. Use `shell: sh`, or give the command as a list."
    return "This image has no shell. Give the command as a list."


def _quoted(words: tuple[str, ...]) -> str:
    text = json.dumps(words, ensure_ascii=False)
    return text if len(text) <= _QUOTED else f"{text[: _QUOTED - 1]}…"
