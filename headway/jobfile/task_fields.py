"""Reads the fields that a task and ``defaults`` share, by the table (spec.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from headway.jobfile import fields, secrets, ulimits
from headway.jobfile.report import Report
from headway.jobfile.source import Ambiguous, Path, printable, quoted
from headway.jobfile.spec import RESOURCES, TASK
from headway.jobfile.table import Table
from headway.model.ulimits import exceeds, told
from headway.units import BadValue

TASK_KEYS: Final = TASK.keys
RESOURCE_KEYS: Final = RESOURCES.keys


@dataclass(slots=True)
class Fields:
    """The good fields of a task or of ``defaults`` by their attributes, and the keys of the bad ones."""

    values: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)


def read_fields(report: Report, raw: dict[str, Any], path: Path, where: str, table: Table = TASK) -> Fields:
    """The fields of a task or of ``defaults``; unknown keys, name and needs are the caller's."""
    out = Fields()
    readers = table.readers
    for key, value in raw.items():
        known = readers.get(key)
        if known is not None:
            attribute, read = known
            # Not report.attempt: this runs 100,000 times for a large job.
            try:
                out.values[attribute] = read(value)
            except BadValue as bad:
                out.bad.add(key)
                report.bad(bad, (*path, key), f"{where}: {key}")
        elif key == "command":
            _command(report, value, path, where, out)
        elif key == "env":
            _env(report, value, (*path, "env"), where, out)
        elif key == "resources":
            _resources(report, value, (*path, "resources"), where, out, table.parts["resources"])
        elif key == "datasets":
            _datasets(report, value, (*path, "datasets"), where, out)
        elif key == "ulimits":
            _ulimits(report, value, (*path, "ulimits"), where, out)
        elif key == "secrets":
            _secrets(report, value, (*path, "secrets"), where, out)
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


def _resources(report: Report, raw: Any, at: Path, where: str, out: Fields, table: Table) -> None:
    if raw is None:
        return
    if not isinstance(raw, dict):
        report.wrong_kind(at, f"{where}: resources", raw, "a mapping: resources: {cpus: 2, memory: 4GiB}")
        return
    for key, value in raw.items():
        here: Path = (*at, key)
        known = table.readers.get(key)
        if known is not None:
            attribute, read = known
            try:
                out.resources[attribute] = read(value)
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
            out.resources["gpu_models"] = tuple(dict.fromkeys(models))
        else:
            report.unknown_key(key, at, table.keys, f"{where}: resources")


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


def _ulimits(report: Report, raw: Any, at: Path, where: str, out: Fields) -> None:
    if raw is None:
        return
    if not isinstance(raw, dict):
        report.wrong_kind(at, f"{where}: ulimits", raw, "a mapping: ulimits: {nofile: 65536, memlock: unlimited}")
        out.bad.add("ulimits")
        return
    before, found = report.total, []
    for name, value in raw.items():
        read = ulimits.READERS.get(name)
        if read is None:
            report.unknown_key(name, at, tuple(ulimits.READERS), f"{where}: ulimits")
            continue
        label = f"{where}: {name}"
        if not isinstance(value, dict):
            one = report.attempt(read, value, (*at, name), label)
            if one is not None:
                found.append(ulimits.Ulimit(name, one, one))
            continue
        here: Path = (*at, name)
        report.keys(value, here, ulimits.PARTS, label)
        if lacking := [part for part in ulimits.PARTS if part not in value]:
            report.add(here, f"{label} has no {lacking[0]} limit; write {{soft: ..., hard: ...}}, or one value")
            continue
        soft, hard = (report.attempt(read, value[part], (*here, part), f"{label}: {part}") for part in ulimits.PARTS)
        if soft is None or hard is None:
            continue
        if exceeds(soft, hard):
            said = f"{told(name, soft)} is above the hard limit, {told(name, hard)}"
            report.add((*here, "soft"), f"{label}: the soft limit {said}; write at most that")
            continue
        found.append(ulimits.Ulimit(name, soft, hard))
    if report.total > before:
        out.bad.add("ulimits")
    else:
        out.values["ulimits"] = ulimits.merged((), found)


def _secrets(report: Report, raw: Any, at: Path, where: str, out: Fields) -> None:
    if raw is None:
        return
    if not isinstance(raw, list | tuple):
        hint = f"secrets: [{printable(raw, 63)}]" if isinstance(raw, str) else "secrets: [HF_TOKEN]"
        report.wrong_kind(at, f"{where}: secrets", raw, f"a list of names: {hint}")
        out.bad.add("secrets")
        return
    before = report.total
    found: dict[tuple[str, str], secrets.SecretUse] = {}
    for index, item in enumerate(raw):
        here: Path = (*at, index)
        use = _secret(report, item, here, where)
        if use is None:
            continue
        if (use.env, use.file) in found:
            report.add(here, f"{where}: two secrets would be {quoted(use.place)}; give one of them another place")
        found[use.env, use.file] = use
    if len(raw) > secrets.MAX_SECRETS:
        report.add(at, f"{where}: secrets has {len(raw)} entries; {secrets.MAX_SECRETS} are allowed")
    if report.total > before:
        out.bad.add("secrets")
    else:
        out.values["secrets"] = tuple(found.values())


def _secret(report: Report, raw: Any, at: Path, where: str) -> secrets.SecretUse | None:
    label = f"{where}: secret"
    if not isinstance(raw, dict):
        name = report.attempt(secrets.secret_name, raw, at, label)
        env = None if name is None else report.attempt(secrets.variable_name, name, at, label)
        return None if name is None or env is None else secrets.SecretUse(name, env=env)
    report.keys(raw, at, secrets.PARTS, label)
    if "name" not in raw:
        report.add(at, f"{label} has no name; write for instance {{name: WANDB, env: WANDB_API_KEY}}")
        return None
    name = report.attempt(secrets.secret_name, raw["name"], (*at, "name"), label)
    if "env" in raw and "file" in raw:
        report.add(at, f"{label}: env and file are two places; list the secret twice, once with each")
        return None
    if "file" in raw:
        file = report.attempt(secrets.file_name, raw["file"], (*at, "file"), f"{label}: file")
        return None if name is None or file is None else secrets.SecretUse(name, file=file)
    key = "env" if "env" in raw else "name"
    env = None if name is None else report.attempt(secrets.variable_name, raw[key], (*at, key), f"{label}: env")
    return None if name is None or env is None else secrets.SecretUse(name, env=env)
