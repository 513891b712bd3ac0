"""The fixed words of a job file."""

from __future__ import annotations

from enum import StrEnum


class Priority(StrEnum):
    """Higher always runs sooner; ``high`` needs a grant by an admin."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class NeedOn(StrEnum):
    """Which ends of a needed task let the task start. Failure counts a timeout and running out of memory;
    any also counts being skipped."""

    SUCCESS = "success"
    FAILURE = "failure"
    ANY = "any"


class Shell(StrEnum):
    """What runs a command given as text: ``/bin/sh -e`` or ``bash -e -o pipefail``."""

    SH = "sh"
    BASH = "bash"


class Entrypoint(StrEnum):
    """REPLACE: the command stands for the image's ENTRYPOINT and CMD. IMAGE: the command is ENTRYPOINT's
    arguments."""

    REPLACE = "replace"
    IMAGE = "image"


class RunAs(StrEnum):
    """ACCOUNT: the account's uid and gid. IMAGE: as the image says, where an admin allows it."""

    ACCOUNT = "account"
    IMAGE = "image"


class Network(StrEnum):
    """OUTGOING: the world, but no other task. JOB: besides, the tasks of the same job on the same machine."""

    OUTGOING = "outgoing"
    JOB = "job"
    NONE = "none"


class LogLimitAction(StrEnum):
    """What happens to output past the limit: dropped and counted, or the task is ended."""

    DROP = "drop"
    KILL = "kill"
