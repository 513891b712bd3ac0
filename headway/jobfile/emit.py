"""A JobSpec as YAML that people like to read and that parses back to an equal JobSpec."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from headway.jobfile.spec import TASK, JobSpec
from headway.jobfile.table import Table

_WIDTH: Final = 100
# Safe without quotes wherever it stands: no indicator of YAML, and never a number, date or boolean to anyone.
_PLAIN = re.compile(r"[^\W_](?:[\w./+=@%~-]|:(?=[\w/])| (?=[\w./+=@%~-]))*|/[\w./+=@%~-]*")
_SPECIAL = re.compile(r"(?i:y|n|yes|no|on|off|true|false|null)|[0-9][0-9_.:xobe+-]*(?:[t ].*)?", re.IGNORECASE)
_HEX_OR_EXPONENT = re.compile(r"(?i:0x[0-9a-f_]+|[0-9._]+e[-+]?[0-9]+)")
# What a literal block would lose or can't hold; the line breaks of YAML 1.1 are among them.
_NOT_LITERAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def to_yaml(spec: JobSpec, table: Table = TASK) -> str:
    """The job as a YAML job file. What all tasks share stands once, under ``defaults``."""
    whole = spec.to_json()
    tasks: list[dict[str, Any]] = whole["tasks"]
    shared: dict[str, Any] = {}
    if len(tasks) > 1:
        for key in table.shared_keys:
            value = tasks[0].get(key)
            if value is not None and all(task.get(key) == value for task in tasks):
                shared[key] = value
    lines = [f"version: {whole['version']}", f"name: {_scalar(spec.name)}", f"priority: {spec.priority.value}"]
    if shared:
        lines.append("defaults:")
        for key, value in shared.items():
            lines += _field(key, value, "  ")
    lines.append("tasks:")
    for task in tasks:
        block = [line for key, value in task.items() if key not in shared for line in _field(key, value, "    ")]
        # The name comes first, on one line, so that the dash can stand before it.
        block[0] = "  - " + block[0].lstrip()
        lines += block
    return "\n".join(lines) + "\n"


def _field(key: str, value: Any, indent: str) -> list[str]:
    if isinstance(value, str):
        if key == "command" and _fits_literal(value):
            return _literal(key, value, indent)
        return [f"{indent}{key}: {_scalar(value)}"]
    if isinstance(value, list):
        words = [_inner(word) for word in value]
        line = f"{indent}{key}: [{', '.join(words)}]"
        if len(line) <= _WIDTH:
            return [line]
        return [f"{indent}{key}:", *(f"{indent}  - {word}" for word in words)]
    if isinstance(value, dict):
        # The values of env are always in quotes, so that the next person sees that they are texts.
        pairs = [
            (_scalar(name, in_flow=True), _quoted(item) if key == "env" else _inner(item))
            for name, item in value.items()
        ]
        line = f"{indent}{key}: {{{', '.join(f'{name}: {item}' for name, item in pairs)}}}"
        if key != "env" and len(line) <= _WIDTH:
            return [line]
        return [f"{indent}{key}:", *(f"{indent}  {name}: {item}" for name, item in pairs)]
    return [f"{indent}{key}: {value}"]


def _inner(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_scalar(item, in_flow=True) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_scalar(name, in_flow=True)}: {_inner(item)}' for name, item in value.items())}}}"
    return _scalar(value, in_flow=True) if isinstance(value, str) else str(value)


def _scalar(text: str, *, in_flow: bool = False) -> str:
    plain = (
        len(text) <= 500
        and _PLAIN.fullmatch(text)
        and not _SPECIAL.fullmatch(text)
        and not _HEX_OR_EXPONENT.fullmatch(text)
        and not (in_flow and ":" in text)
    )
    return text if plain else _quoted(text)


def _quoted(text: str) -> str:
    # JSON's escapes are all YAML's too; what YAML can't hold as such and JSON can, is escaped on top.
    return _NOT_LITERAL.sub(lambda bad: f"\\u{ord(bad[0]):04x}", json.dumps(text, ensure_ascii=False))


def _fits_literal(text: str) -> bool:
    return "\n" in text and bool(text.strip()) and not _NOT_LITERAL.search(text)


def _literal(key: str, text: str, indent: str) -> list[str]:
    body = text.rstrip("\n")
    trailing = len(text) - len(body)
    chomp = "-" if trailing == 0 else "" if trailing == 1 else "+"
    # Without the number, a first line that is empty or starts with a space would set another indentation.
    number = "2" if body[:1] in (" ", "\t", "\n") else ""
    lines = [f"{indent}  {line}" if line else "" for line in body.split("\n")]
    return [f"{indent}{key}: |{number}{chomp}", *lines, *[""] * (trailing - 1)]
