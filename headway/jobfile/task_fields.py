"""The fields that a task and ``defaults`` share: which there are and how each is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from headway.jobfile import fields
from headway.jobfile.report import Report
from headway.jobfile.source import Ambiguous, Path, printable, quoted
from headway.jobfile.spec import Entrypoint, LogLimitAction, Network, RunAs, Shell
from headway.units import BadValue

_SCALARS: Final[dict[str, Callable[[Any], Any]]] = {
    "image": fields.image,
    "shell": fields.choice(Shell),
    "entrypoint": fields.choice(Entrypoint),
    "working_dir": fields.working_dir,
    "code": fields.code,
    "timeout": fields.duration,
    "grace": fields.grace,
    "retries": fields.retries,
    "user": fields.choice(RunAs),
    "network": fields.choice(Network),
    "output_path": fields.output_path,
    "log_limit": fields.size,
    "log_limit_action": fields.choice(LogLimitAction),
}
_RESOURCES: Final[dict[str, Callable[[Any], Any]]] = {
    "cpus": fields.cpus,
    "memory": fields.memory,
    "shm": fields.size,
    "gpus": fields.gpus,
    "gpu_memory": fields.size,
}
DEFAULTS_KEYS: Final = (
    "image",
    "command",
    "shell",
    "entrypoint",
    "env",
    "working_dir",
    "code",
    "datasets",
    "resources",
    "timeout",
    "grace",
    "retries",
    "user",
    "network",
    "output_path",
    "log_limit",
    "log_limit_action",
)
TASK_KEYS: Final = ("name", "needs", *DEFAULTS_KEYS)
RESOURCE_KEYS: Final = ("cpus", "memory", "shm", "gpus", "gpu_model", "gpu_memory")


@dataclass(slots=True)
class Fields:
    """The good fields of a task or of ``defaults``, and the names of the bad ones."""

    values: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)


def read_fields(report: Report, raw: dict[str, Any], path: Path, where: str) -> Fields:
    """The fields of a task or of ``defaults``; unknown keys, name and needs are the caller's."""
    out = Fields()
    for key, value in raw.items():
        check = _SCALARS.get(key)
        if check is not None:
            # Not report.attempt: this runs 100,000 times for a large job.
            try:
                out.values[key] = check(value)
            except BadValue as bad:
                out.bad.add(key)
                report.bad(bad, (*path, key), f"{where}: {key}")
        elif key == "command":
            _command(report, value, path, where, out)
        elif key == "env":
            _env(report, value, (*path, "env"), where, out)
        elif key == "resources":
            _resources(report, value, (*path, "resources"), where, out)
        elif key == "datasets":
            _datasets(report, value, (*path, "datasets"), where, out)
    return out


def _command(report: Report, raw: Any, path: Path, where: str, out: Fields) -> None:
    at: Path = (*path, "command")
    before = report.total
    if isinstance(raw, str):
        command = report.attempt(fields.script, raw, at, f"{where}: command")
    elif isinstance(raw, list | tuple):
        words = [
            report.attempt(fields.argument, word, (*at, index), f"{where}: word {index + 1} of command")
            for index, word in enumerate(raw)
        ]
        if not words or words[0] == "":
            report.add(at, f"{where}: command is an empty list; its first word is the program to run")
        command = tuple(words)
    else:
        report.wrong_kind(at, f"{where}: command", raw, "a text (a script) or a list (a program and its arguments)")
    if report.total == before:
        out.values["command"] = command
    else:
        out.bad.add("command")


def _env(report: Report, raw: Any, at: Path, where: str, out: Fields) -> None:
    if raw is None:
        return
    if not isinstance(raw, dict):
        report.wrong_kind(at, f"{where}: env", raw, 'a mapping: env: {LR: "0.01"}')
        return
    for name, value in raw.items():
        here: Path = (*at, name)
        try:
            fields.env_name(name)
        except BadValue as bad:
            report.bad(bad, here, f"{where}: env", of_key=True)
            continue
        if type(value) is str and value.isascii() and "\0" not in value and len(value) < 30_000:
            out.env[name] = value
        else:
            _env_value(report, name, value, here, where, out)


def _env_value(report: Report, name: str, value: Any, here: Path, where: str, out: Fields) -> None:
    label = f"{where}: env {printable(name, 60)}"
    if isinstance(value, Ambiguous) or value is None or isinstance(value, bool | int | float):
        typed = report.source.written(here)
        typed = printable(str(value) if typed is None else typed, 60)
        if value is None and typed in ("", "~", "null"):
            problem, suggestion = "has no value", '""'
            advice = f'write {printable(name, 60)}: "" for an empty text'
        else:
            kind = (
                "which many YAML readers change"
                if isinstance(value, Ambiguous)
                else f"which is {fields.kind_of(value)}"
            )
            problem, suggestion = f"is {typed} without quotes, {kind}", f'"{typed}"'
            advice = f'quote it: {printable(name, 60)}: "{typed}"'
        report.add(here, f"{label} {problem}; {advice}", suggestion=suggestion)
        return
    checked = report.attempt(fields.text, value, here, label)
    if checked is not None:
        if len(name.encode()) + len(checked.encode()) + 1 > fields.MAX_STRING_BYTES:
            report.add(here, f"{label} is longer than 128 KiB, more than Linux can pass to a program; put it in a file")
        out.env[name] = checked


def _resources(report: Report, raw: Any, at: Path, where: str, out: Fields) -> None:
    if raw is None:
        return
    if not isinstance(raw, dict):
        report.wrong_kind(at, f"{where}: resources", raw, "a mapping: resources: {cpus: 2, memory: 4GiB}")
        return
    for key, value in raw.items():
        here: Path = (*at, key)
        check = _RESOURCES.get(key)
        if check is not None:
            try:
                out.resources[key] = check(value)
            except BadValue as bad:
                out.bad.add(key)
                report.bad(bad, here, f"{where}: {key}")
        elif key == "gpu_model":
            listed = value if isinstance(value, list | tuple) else [value]
            models = [
                report.attempt(
                    fields.gpu_model, model, (*here, index) if value is listed else here, f"{where}: gpu_model"
                )
                for index, model in enumerate(listed)
            ]
            if not models:
                report.add(here, f"{where}: gpu_model is an empty list; name a model or remove it")
            out.resources[key] = tuple(dict.fromkeys(models))
        else:
            report.unknown_key(key, at, RESOURCE_KEYS, f"{where}: resources")


def _datasets(report: Report, raw: Any, at: Path, where: str, out: Fields) -> None:
    if raw is None:
        return
    if not isinstance(raw, list | tuple):
        hint = f": datasets: [{printable(raw, 63)}]" if isinstance(raw, str) else ""
        report.wrong_kind(at, f"{where}: datasets", raw, f"a list of names{hint}")
        return
    found: dict[str, str] = {}
    for index, item in enumerate(raw):
        reference = report.attempt(fields.dataset_name, item, (*at, index), f"{where}: dataset")
        if reference is None:
            continue
        # All versions of one are seen at the same place, so there can be one only.
        name = reference.partition("@")[0]
        if name in found:
            report.add((*at, index), f"{where}: the dataset {quoted(name)} is listed twice; keep one of the two")
        else:
            found[name] = reference
    out.values["datasets"] = tuple(found.values())
