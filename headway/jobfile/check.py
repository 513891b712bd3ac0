"""From plain values to a JobSpec, with every problem on the way. The schema is here: which keys exist and
how the job's defaults and a task's own fields come together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from headway.errors import Problem
from headway.jobfile import fields
from headway.jobfile.hints import elsewhere, nearest
from headway.jobfile.source import Ambiguous, Path, Problems, Source, pointer_of, printable, quoted
from headway.jobfile.spec import (
    DEFAULT_GRACE_S,
    DEFAULT_LOG_LIMIT_BYTES,
    Entrypoint,
    JobSpec,
    LogLimitAction,
    Need,
    NeedOn,
    Network,
    Priority,
    ResourceSpec,
    RunAs,
    Shell,
    TaskSpec,
)
from headway.units import MIB, BadValue

_SCALARS: Final[dict[str, Callable[[Any], Any]]] = {
    "image": fields.image,
    "shell": fields.choice(Shell),
    "entrypoint": fields.choice(Entrypoint),
    "working_dir": fields.working_dir,
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
JOB_KEYS: Final = ("version", "name", "priority", "defaults", "tasks")
DEFAULTS_KEYS: Final = (
    "image",
    "command",
    "shell",
    "entrypoint",
    "env",
    "working_dir",
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
REQUIRED: Final = {
    "image": "image: base/python:1",
    "command": "command: python3 train.py",
    "timeout": "timeout: 30m",
}
_TASK_KEY_SET: Final = frozenset(TASK_KEYS)
_need_on = fields.choice(NeedOn)
_NEED_ON: Final = {on.value: on for on in NeedOn}


@dataclass(frozen=True, slots=True)
class Limits:
    """How large one job may be."""

    bytes: int = 8 * MIB  # of the file
    tasks: int = 10_000
    edges: int = 200_000  # needs of all tasks together
    nodes: int = 1_000_000  # values in the file, aliases written out
    text_bytes: int = 32 * MIB  # commands and environments, with defaults and aliases written out


@dataclass(slots=True)
class _Fields:
    """The good fields of a task or of ``defaults``, and the names of the bad ones."""

    values: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)


class Checker:
    """One document's check; use once."""

    def __init__(self, source: Source, limits: Limits, problems: Problems) -> None:
        self._source = source
        self._limits = limits
        self._problems = problems
        self._known: dict[str, int] = {}  # task name -> index of the first task that has it
        self._lower: dict[str, str] = {}
        self._edges = 0
        self._text_bytes = 0
        self._resource_specs: dict[tuple[Any, ...], ResourceSpec] = {}

    def job(self) -> JobSpec | None:
        """The job, or None when there are problems."""
        raw = self._source.value
        if not isinstance(raw, dict):
            what = "is empty" if raw is None else f"is {fields.kind_of(raw)}"
            self._add((), f"the job file {what}; it starts with name: and tasks:", allowed=JOB_KEYS)
            return None
        self._keys(raw, (), JOB_KEYS, "the job file")
        name = self._required_one(raw, "name", fields.job_name, "a label for people: name: digits")
        priority = self._one(raw, "priority", fields.choice(Priority), ()) or Priority.NORMAL
        self._one(raw, "version", fields.version, ())
        defaults = _Fields()
        if (raw_defaults := raw.get("defaults")) is not None:
            if isinstance(raw_defaults, dict):
                self._keys(raw_defaults, ("defaults",), DEFAULTS_KEYS, "defaults")
                defaults = self._fields(raw_defaults, ("defaults",), "defaults")
            else:
                self._wrong_kind(("defaults",), "defaults", raw_defaults, "a mapping of task fields")
        tasks = self._tasks(raw, defaults)
        if self._problems or name is None:
            return None
        return JobSpec(name=name, tasks=tuple(tasks), priority=priority)

    # --- tasks -------------------------------------------------------------------------------------------

    def _tasks(self, raw: dict[str, Any], defaults: _Fields) -> list[TaskSpec]:
        listed = raw.get("tasks")
        if "tasks" not in raw:
            self._add((), "the job file has no tasks; write at least one under tasks:")
            return []
        if not isinstance(listed, list | tuple):
            self._wrong_kind(("tasks",), "tasks", listed, "a list, each entry with a name")
            return []
        if not listed:
            self._add(("tasks",), "tasks is empty; write at least one task")
        if len(listed) > self._limits.tasks:
            self._add(
                ("tasks",),
                f"the job has {len(listed):,} tasks; {self._limits.tasks:,} are allowed, split it into several jobs",
            )
            return []
        names = self._names(listed)
        tasks = []
        for index, (raw_task, name) in enumerate(zip(listed, names, strict=True)):
            if isinstance(raw_task, dict):
                task = self._task(raw_task, ("tasks", index), name, defaults)
                if task is not None:
                    tasks.append(task)
            else:
                self._wrong_kind(("tasks", index), f"task {index + 1}", raw_task, "a mapping with a name")
        if self._edges > self._limits.edges:
            self._add(("tasks",), f"the job has {self._edges:,} needs in all; {self._limits.edges:,} are allowed")
        if self._text_bytes > self._limits.text_bytes:
            self._add(
                ("tasks",),
                f"commands and environments come to {self._text_bytes // MIB:,} MiB with defaults applied; "
                f"{self._limits.text_bytes // MIB} MiB are allowed, put long scripts in a file of the personal space",
            )
        return tasks

    def _names(self, listed: Iterable[Any]) -> list[str | None]:
        """Checks all names before any need is looked at: a repeated name would hide the edge that shows a
        loop."""
        names: list[str | None] = []
        for index, raw in enumerate(listed):
            name = None
            if isinstance(raw, dict):
                at: Path = ("tasks", index, "name")
                if "name" not in raw:
                    self._add(at[:-1], f"task {index + 1} has no name; write name: and {fields.TASK_NAME_RULE}")
                elif isinstance(raw["name"], str):
                    name = str(raw["name"])
                    if name in self._known:
                        self._add(
                            at,
                            f"task {index + 1}: the name {quoted(name)} is taken by task "
                            f"{self._known[name] + 1}; give each task its own name",
                        )
                    else:
                        self._known[name] = index
                        self._try(fields.task_name, name, at, f"task {index + 1}: name")
                else:
                    self._try(fields.task_name, raw["name"], at, f"task {index + 1}: name")
            names.append(name)
        return names

    def _task(self, raw: dict[str, Any], path: Path, name: str | None, defaults: _Fields) -> TaskSpec | None:
        where = f"task {quoted(name)}" if name else f"task {int(path[1]) + 1}"
        for key in raw:
            if key not in _TASK_KEY_SET:
                self._unknown_key(key, path, TASK_KEYS, where)
        own = self._fields(raw, path, where)
        values = {**defaults.values, **own.values}
        for key, example in REQUIRED.items():
            if key not in values and key not in own.bad and key not in defaults.bad:
                self._add(path, f"{where} has no {key}; write for instance {example}, here or under defaults")
        command = values.get("command")
        shell = values.get("shell", Shell.SH)
        if isinstance(command, tuple):
            if "shell" in own.values:
                self._add(
                    (*path, "shell"),
                    f"{where}: shell goes with a command written as text, and this one is a list; remove shell, "
                    "or write the command as text",
                    of_key=True,
                )
            shell = None
        needs = self._needs(raw.get("needs"), path, where, name)
        resources = {**defaults.resources, **own.resources} if own.resources else defaults.resources
        if not resources.get("gpus", 0):
            for key in ("gpu_model", "gpu_memory"):
                if key in own.resources and "gpus" not in own.bad and "gpus" not in defaults.bad:
                    self._add(
                        (*path, "resources", key),
                        f"{where}: {key} says nothing without GPUs; add gpus: 1 to resources, or remove {key}",
                        of_key=True,
                    )
        env = {**defaults.env, **own.env} if own.env else defaults.env
        self._count_text(where, path, command, env)
        if self._problems or name is None:
            return None
        return TaskSpec(
            name=name,
            needs=needs,
            image=values["image"],
            command=values["command"],
            shell=shell,
            entrypoint=values.get("entrypoint", Entrypoint.REPLACE),
            env=tuple(sorted(env.items())),
            working_dir=values.get("working_dir"),
            datasets=values.get("datasets", ()),
            resources=self._resource_spec(resources),
            timeout_s=values["timeout"],
            grace_s=values.get("grace", DEFAULT_GRACE_S),
            retries=values.get("retries", 0),
            user=values.get("user", RunAs.ACCOUNT),
            network=values.get("network", Network.OUTGOING),
            output_path=values.get("output_path"),
            log_limit_bytes=values.get("log_limit", DEFAULT_LOG_LIMIT_BYTES),
            log_limit_action=values.get("log_limit_action", LogLimitAction.DROP),
        )

    def _count_text(self, where: str, path: Path, command: Any, env: dict[str, str]) -> None:
        env_bytes = sum(map(_bytes_of_pair, env.items()))
        if isinstance(command, tuple):
            env_bytes += sum(_bytes_of(word) + 1 for word in command)
        elif isinstance(command, str):
            self._text_bytes += _bytes_of(command)
        self._text_bytes += env_bytes
        if env_bytes > fields.MAX_ENV_BYTES:
            self._add(path, f"{where}: env and a command's list come to more than 1 MiB, which no program can be given")

    def _resource_spec(self, given: dict[str, Any]) -> ResourceSpec:
        key = tuple(given.items())
        spec = self._resource_specs.get(key)
        if spec is None:
            default = ResourceSpec()
            memory_bytes = given.get("memory", default.memory_bytes)
            gpus = given.get("gpus", 0)
            spec = ResourceSpec(
                cpus_centi=given.get("cpus", default.cpus_centi),
                memory_bytes=memory_bytes,
                shm_bytes=given.get("shm", memory_bytes // 2),
                gpus=gpus,
                # From the defaults, they may meet a task without GPUs and then mean nothing.
                gpu_models=given.get("gpu_model", ()) if gpus else (),
                gpu_memory_bytes=given.get("gpu_memory") if gpus else None,
            )
            self._resource_specs[key] = spec
        return spec

    # --- needs -------------------------------------------------------------------------------------------

    def _needs(self, raw: Any, path: Path, where: str, name: str | None) -> tuple[Need, ...]:
        if raw is None or raw == []:
            return ()
        at: Path = (*path, "needs")
        wanted: dict[str, NeedOn] = {}
        if isinstance(raw, dict):
            for task, word in raw.items():
                on = _NEED_ON.get(word) if isinstance(word, str) else None
                if on is None:
                    self._try(_need_on, word, (*at, task), f"{where}: need {quoted(task)}")
                if self._need_known(task, (*at, task), where, name, of_key=True):
                    wanted[task] = on or NeedOn.SUCCESS
        elif isinstance(raw, list | tuple):
            for index, task in enumerate(raw):
                here: Path = (*at, index)
                if not isinstance(task, str):
                    hint = "as a mapping without '-': needs: {prepare: any}" if isinstance(task, dict) else "a name"
                    self._add(here, f"{where}: a need is {fields.kind_of(task)}; write {hint}")
                elif task in wanted:
                    self._add(here, f"{where} needs {quoted(task)} twice; keep one of the two")
                elif self._need_known(task, here, where, name):
                    wanted[str(task)] = NeedOn.SUCCESS
        else:
            hint = f": needs: [{printable(raw, 63)}]" if isinstance(raw, str) else ""
            self._wrong_kind(at, f"{where}: needs", raw, f"a list of task names{hint}")
        self._edges += len(wanted)
        if len(wanted) == 1:
            return tuple(Need(task, on) for task, on in wanted.items())
        return tuple(Need(task, wanted[task]) for task in sorted(wanted))

    def _need_known(self, task: str, at: Path, where: str, name: str | None, *, of_key: bool = False) -> bool:
        if task == name:
            self._add(at, f"{where} needs itself; remove {quoted(task)} from its needs", of_key=of_key)
            return False
        if task in self._known:
            return True
        if not self._problems.room():
            self._problems.total += 1
            return False
        suggestion = nearest(task, self._known, self._lower)
        known = [other for other in self._known if other != name]
        if suggestion:
            hint = f"did you mean {quoted(suggestion)}?"
        elif len(known) <= 10:
            hint = f"known are {', '.join(map(quoted, known))}" if known else "it is the only task"
        else:
            hint = f"known are {', '.join(map(quoted, known[:10]))} and {len(known) - 10} more"
        self._add(
            at,
            f"{where} needs {quoted(task)}, which does not exist; {hint}",
            of_key=of_key,
            suggestion=suggestion,
            allowed=tuple(known[:20]),
            word=task,
        )
        return False

    # --- fields that defaults and tasks share ------------------------------------------------------------

    def _fields(self, raw: dict[str, Any], path: Path, where: str) -> _Fields:
        out = _Fields()
        for key, value in raw.items():
            check = _SCALARS.get(key)
            if check is not None:
                # Not _try: this runs 100,000 times for a large job.
                try:
                    out.values[key] = check(value)
                except BadValue as bad:
                    out.bad.add(key)
                    self._bad(bad, (*path, key), f"{where}: {key}")
            elif key == "command":
                self._command(value, path, where, out)
            elif key == "env":
                self._env(value, (*path, "env"), where, out)
            elif key == "resources":
                self._resources(value, (*path, "resources"), where, out)
            elif key == "datasets":
                self._datasets(value, (*path, "datasets"), where, out)
        return out

    def _command(self, raw: Any, path: Path, where: str, out: _Fields) -> None:
        at: Path = (*path, "command")
        before = self._problems.total
        if isinstance(raw, str):
            command = self._try(fields.script, raw, at, f"{where}: command")
        elif isinstance(raw, list | tuple):
            words = [
                self._try(fields.argument, word, (*at, index), f"{where}: word {index + 1} of command")
                for index, word in enumerate(raw)
            ]
            if not words or words[0] == "":
                self._add(at, f"{where}: command is an empty list; its first word is the program to run")
            command = tuple(words)
        else:
            self._wrong_kind(at, f"{where}: command", raw, "a text (a script) or a list (a program and its arguments)")
        if self._problems.total == before:
            out.values["command"] = command
        else:
            out.bad.add("command")

    def _env(self, raw: Any, at: Path, where: str, out: _Fields) -> None:
        if raw is None:
            return
        if not isinstance(raw, dict):
            self._wrong_kind(at, f"{where}: env", raw, 'a mapping: env: {LR: "0.01"}')
            return
        for name, value in raw.items():
            here: Path = (*at, name)
            try:
                fields.env_name(name)
            except BadValue as bad:
                self._bad(bad, here, f"{where}: env", of_key=True)
                continue
            if type(value) is str and value.isascii() and "\0" not in value and len(value) < 30_000:
                out.env[name] = value
            else:
                self._env_value(name, value, here, where, out)

    def _env_value(self, name: str, value: Any, here: Path, where: str, out: _Fields) -> None:
        label = f"{where}: env {printable(name, 60)}"
        if isinstance(value, Ambiguous) or value is None or isinstance(value, bool | int | float):
            typed = self._source.written(here)
            typed = printable(str(value) if typed is None else typed, 60)
            if value is None and typed in ("", "~", "null"):
                problem, suggestion = "has no value", '""'
                advice = f'write {name}: "" for an empty text'
            else:
                problem, suggestion = f"is {typed} without quotes, which many YAML readers change", f'"{typed}"'
                advice = f'quote it: {printable(name, 60)}: "{typed}"'
            self._add(here, f"{label} {problem}; {advice}", suggestion=suggestion)
            return
        checked = self._try(fields.text, value, here, label)
        if checked is not None:
            if len(name.encode()) + len(checked.encode()) + 1 > fields.MAX_STRING_BYTES:
                self._add(
                    here, f"{label} is longer than 128 KiB, more than Linux can pass to a program; put it in a file"
                )
            out.env[name] = checked

    def _resources(self, raw: Any, at: Path, where: str, out: _Fields) -> None:
        if raw is None:
            return
        if not isinstance(raw, dict):
            self._wrong_kind(at, f"{where}: resources", raw, "a mapping: resources: {cpus: 2, memory: 4GiB}")
            return
        for key, value in raw.items():
            here: Path = (*at, key)
            check = _RESOURCES.get(key)
            if check is not None:
                try:
                    out.resources[key] = check(value)
                except BadValue as bad:
                    out.bad.add(key)
                    self._bad(bad, here, f"{where}: {key}")
            elif key == "gpu_model":
                listed = value if isinstance(value, list | tuple) else [value]
                models = [
                    self._try(
                        fields.gpu_model, model, (*here, index) if value is listed else here, f"{where}: gpu_model"
                    )
                    for index, model in enumerate(listed)
                ]
                if not models:
                    self._add(here, f"{where}: gpu_model is an empty list; name a model or remove it")
                out.resources[key] = tuple(dict.fromkeys(models))
            else:
                self._unknown_key(key, at, RESOURCE_KEYS, f"{where}: resources")

    def _datasets(self, raw: Any, at: Path, where: str, out: _Fields) -> None:
        if raw is None:
            return
        if not isinstance(raw, list | tuple):
            hint = f": datasets: [{printable(raw, 63)}]" if isinstance(raw, str) else ""
            self._wrong_kind(at, f"{where}: datasets", raw, f"a list of names{hint}")
            return
        names: list[str] = []
        for index, item in enumerate(raw):
            name = self._try(fields.dataset_name, item, (*at, index), f"{where}: dataset")
            if name in names:
                self._add((*at, index), f"{where}: the dataset {quoted(name)} is listed twice; keep one of the two")
            elif name is not None:
                names.append(name)
        out.values["datasets"] = tuple(names)

    # --- saying what is wrong ----------------------------------------------------------------------------

    def _keys(self, raw: dict[str, Any], path: Path, known: tuple[str, ...], where: str) -> None:
        for key in raw:
            if key not in known:
                self._unknown_key(key, path, known, where)

    def _unknown_key(self, key: Any, path: Path, known: tuple[str, ...], where: str) -> None:
        if not isinstance(key, str):
            self._add(path, f"{where}: a key is {fields.kind_of(key)}; keys are texts", allowed=known)
            return
        suggestion = nearest(key, known) if self._problems.room() else None
        if advice := elsewhere(key, path, known):
            hint = advice
        elif suggestion:
            hint = f"did you mean {quoted(suggestion)}?"
        else:
            hint = f"known are {', '.join(known)}"
        self._add(
            (*path, key),
            f"{where}: unknown key {quoted(key)}; {hint}",
            of_key=True,
            word=key,
            allowed=known,
            suggestion=suggestion,
        )

    def _one(self, raw: dict[str, Any], key: str, check: Callable[[Any], Any], path: Path) -> Any:
        return self._try(check, raw[key], (*path, key), key) if key in raw else None

    def _required_one(self, raw: dict[str, Any], key: str, check: Callable[[Any], Any], example: str) -> Any:
        if key not in raw:
            self._add((), f"the job file has no {key}; write {example}")
            return None
        return self._one(raw, key, check, ())

    def _try(self, check: Callable[[Any], Any], raw: Any, path: Path, label: str) -> Any:
        try:
            return check(raw)
        except BadValue as bad:
            self._bad(bad, path, label)
            return None

    def _bad(self, bad: BadValue, path: Path, label: str, *, of_key: bool = False) -> None:
        self._add(path, f"{label} {bad.message}", of_key=of_key, allowed=bad.allowed, suggestion=bad.suggestion)

    def _wrong_kind(self, path: Path, label: str, raw: Any, wanted: str) -> None:
        self._add(path, f"{label} is {fields.kind_of(raw)}; write {wanted}")

    def _add(
        self,
        path: Path,
        message: str,
        *,
        of_key: bool = False,
        word: str | None = None,
        allowed: tuple[str, ...] = (),
        suggestion: str | None = None,
    ) -> None:
        if not self._problems.room():
            self._problems.total += 1
            return
        place = self._source.place(path, of_key=of_key)
        if word is None:
            word = str(path[-1]) if of_key else self._source.written(path)
        self._problems.add(
            Problem(
                pointer=printable(pointer_of(path), 500),
                message=message,
                line=place.line,
                column=place.column,
                word=printable(word or ""),
                allowed=allowed,
                suggestion=printable(suggestion or ""),
            )
        )


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _bytes_of_pair(pair: tuple[str, str]) -> int:
    return _bytes_of(pair[0]) + _bytes_of(pair[1]) + 2
