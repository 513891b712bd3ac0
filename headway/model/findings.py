"""What a look at one thing found. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is. With a problem the machine can't do its work, or loses some."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """``remedy`` says what to do; empty when there is nothing to do."""

    name: str
    level: Severity
    sentence: str
    remedy: str = ""


def ok(name: str, sentence: str) -> Check:
    return Check(name, Severity.OK, sentence)


def warning(name: str, sentence: str, remedy: str) -> Check:
    return Check(name, Severity.WARNING, sentence, remedy)


def problem(name: str, sentence: str, remedy: str) -> Check:
    return Check(name, Severity.PROBLEM, sentence, remedy)


def worst(checks: Iterable[Check]) -> Severity:
    """The worst of all; ok where there is none."""
    found = {check.level for check in checks}
    return next((level for level in (Severity.PROBLEM, Severity.WARNING) if level in found), Severity.OK)
