"""Findings of checks: a table with remedies for people, a list for programs, an exit status for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..model.findings import Check, Severity, worst
from .common import safe, table

_COLOURS = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.PROBLEM: "red"}
_STATUS = {Severity.OK: 0, Severity.WARNING: 1, Severity.PROBLEM: 2}


def show_checks(checks: Sequence[Check]) -> None:
    """A table of what was looked at, then what to mend."""
    table(["check", "", "what was found"], [[safe(one.name), _mark(one), safe(one.sentence)] for one in checks])
    for one in checks:
        if one.remedy:
            click.echo(f"{safe(one.name)}: {safe(one.remedy)}")
    click.echo()


def as_json(checks: Sequence[Check]) -> dict[str, Any]:
    rows = [
        {"name": one.name, "level": str(one.level), "sentence": one.sentence, "remedy": one.remedy} for one in checks
    ]
    return {"level": str(worst(checks)), "checks": rows}


def status_of(checks: Sequence[Check]) -> int:
    """Of the process: 0 all is well, 1 warnings, 2 problems."""
    return _STATUS[worst(checks)]


def _mark(check: Check) -> str:
    return click.style(str(check.level), fg=_COLOURS[check.level])
