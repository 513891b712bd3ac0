"""Ids of jobs, tasks, attempts and nodes.

A job id is time-ordered, so sorting by id is sorting by submission, and it may be shortened while unique.
A task is named by its job and its name, an attempt by its task and its number from 1: no other key exists.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple, NewType

JobId = NewType("JobId", str)
NodeId = NewType("NodeId", str)

# So many characters of an id's end tell apart what one account has within a week: 25 bits of chance.
SHORTEST_END = 5
# Crockford's base 32 in lower case: no i, l, o, u, so that ids survive being read aloud.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_JOB_ID = re.compile(rf"j[{_ALPHABET}]{{16}}")
ACCOUNT_NAME = r"[a-z_][a-z0-9_-]{0,31}"
# Tasks, the image market and queries (`owner=me`) use these names for something else than accounts.
RESERVED_ACCOUNTS = frozenset({"root", "base", "nobody", "headway", "me"})
_TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def _base32(value: int, digits: int) -> str:
    out = []
    for _ in range(digits):
        out.append(_ALPHABET[value & 31])
        value >>= 5
    return "".join(reversed(out))


def new_job_id(now: float, entropy: bytes | None = None) -> JobId:
    """A fresh job id: ``j``, nine digits of milliseconds since the epoch, seven random ones.

    ``now`` is in epoch seconds; ``entropy`` (at least 5 bytes) is for tests.
    """
    chance = int.from_bytes((entropy or os.urandom(5))[:5], "big") & (2**35 - 1)
    return JobId("j" + _base32(int(now * 1000), 9) + _base32(chance, 7))


def first_job_id(at: float) -> JobId:
    """The least id of the jobs that were made from ``at`` on, in epoch seconds."""
    return JobId("j" + _base32(max(0, int(at * 1000)), 9) + _ALPHABET[0] * 7)


def is_job_id(text: str) -> bool:
    """Whether ``text`` has the form of a whole job id."""
    return _JOB_ID.fullmatch(text) is not None


def is_account_name(text: str) -> bool:
    """Whether an account may have this name: lower-case letters, digits, ``_`` and ``-``, up to 32."""
    return re.fullmatch(ACCOUNT_NAME, text) is not None and text not in RESERVED_ACCOUNTS


def is_task_name(text: str) -> bool:
    """Whether ``text`` may name a task (and so a folder): letters, digits, ``. _ -``, up to 63."""
    return _TASK_NAME.fullmatch(text) is not None


# Tuples, since almost everything is looked up by these: Python hashes and compares them several times as fast as
# dataclasses.
class TaskId(NamedTuple):
    """A task: its job and its name there."""

    job_id: JobId
    name: str

    def __str__(self) -> str:
        return f"{self.job_id}/{self.name}"


class AttemptId(NamedTuple):
    """One run of a task; ``number`` counts from 1 and never repeats, so it is the fence."""

    task: TaskId
    number: int

    def __str__(self) -> str:
        return f"{self.task}/{self.number}"

    @property
    def folder(self) -> str:
        """The name of the attempt's folder on a worker's own disk; also the container's name after ``headway-``."""
        return f"{self.task.job_id}.{self.task.name}.{self.number}"
