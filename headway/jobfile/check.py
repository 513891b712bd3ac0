"""From plain values to a JobSpec, with every problem on the way.

Names and needs are checked here, and here a job's defaults and a task's own fields come together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from headway.jobfile import fields
from headway.jobfile.hints import nearest
from headway.jobfile.report import Report
from headway.jobfile.secrets import SecretUse
from headway.jobfile.source import Path, Problems, Source, printable, quoted
from headway.jobfile.spec import TASK, JobSpec, Need, NeedOn, Priority, ResourceSpec, TaskSpec
from headway.jobfile.table import Table
from headway.jobfile.task_fields import Fields, read_fields
from headway.jobfile.ulimits import merged
from headway.units import MIB, format_size

JOB_KEYS: Final = ("version", "name", "priority", "defaults", "tasks")
_need_on = fields.choice(NeedOn)
_NEED_ON: Final = {on.value: on for on in NeedOn}


@dataclass(frozen=True, slots=True)
class JobFileLimits:
    """How large one job may be."""

    bytes: int = 8 * MIB  # of the file
    tasks: int = 10_000
    edges: int = 200_000  # needs of all tasks together
    nodes: int = 1_000_000  # values in the file, aliases written out
    text_bytes: int = 32 * MIB  # commands and environments, with defaults and aliases written out


class Checker:
    """One document's check; use once."""

    def __init__(self, source: Source, limits: JobFileLimits, problems: Problems, table: Table = TASK) -> None:
        self._limits = limits
        self._table = table
        self._keys = frozenset(table.keys)
        self._parts = table.parts["resources"]
        self._need_another = tuple(row for row in self._parts.rows if row.without)
        self._report = Report(source, problems)
        self._known: dict[str, int] = {}  # task name -> index of the first task that has it
        self._lower: dict[str, str] = {}
        self._edges = 0
        self._text_bytes = 0
        self._resource_specs: dict[tuple[Any, ...], ResourceSpec] = {}
        self._defaults_shm_told = False  # once is enough for all tasks that take it from there

    def job(self) -> JobSpec | None:
        """The job, or None when there are problems."""
        raw = self._report.source.value
        if not isinstance(raw, dict):
            what = "is empty" if raw is None else f"is {fields.kind_of(raw)}"
            self._report.add((), f"the job file {what}; it starts with name: and tasks:", allowed=JOB_KEYS)
            return None
        self._report.keys(raw, (), JOB_KEYS, "the job file")
        name = self._required_one(raw, "name", fields.job_name, "a label for people: name: digits")
        priority = self._one(raw, "priority", fields.choice(Priority), ()) or Priority.NORMAL
        self._one(raw, "version", fields.version, ())
        defaults = Fields()
        if (raw_defaults := raw.get("defaults")) is not None:
            if isinstance(raw_defaults, dict):
                self._report.keys(raw_defaults, ("defaults",), self._table.shared_keys, "defaults")
                defaults = read_fields(self._report, raw_defaults, ("defaults",), "defaults", self._table)
            else:
                self._report.wrong_kind(("defaults",), "defaults", raw_defaults, "a mapping of task fields")
        tasks = self._tasks(raw, defaults)
        if self._report or name is None:
            return None
        return JobSpec(name=name, tasks=tuple(tasks), priority=priority)

    # --- tasks -------------------------------------------------------------------------------------------

    def _tasks(self, raw: dict[str, Any], defaults: Fields) -> list[TaskSpec]:
        listed = raw.get("tasks")
        if "tasks" not in raw:
            self._report.add((), "the job file has no tasks; write at least one under tasks:")
            return []
        if not isinstance(listed, list | tuple):
            self._report.wrong_kind(("tasks",), "tasks", listed, "a list, each entry with a name")
            return []
        if not listed:
            self._report.add(("tasks",), "tasks is empty; write at least one task")
        if len(listed) > self._limits.tasks:
            self._report.add(
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
                self._report.wrong_kind(("tasks", index), f"task {index + 1}", raw_task, "a mapping with a name")
        if self._edges > self._limits.edges:
            self._report.add(
                ("tasks",), f"the job has {self._edges:,} needs in all; {self._limits.edges:,} are allowed"
            )
        if self._text_bytes > self._limits.text_bytes:
            self._report.add(
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
                    self._report.add(at[:-1], f"task {index + 1} has no name; write name: and {fields.TASK_NAME_RULE}")
                elif isinstance(raw["name"], str):
                    name = str(raw["name"])
                    if name in self._known:
                        self._report.add(
                            at,
                            f"task {index + 1}: the name {quoted(name)} is taken by task "
                            f"{self._known[name] + 1}; give each task its own name",
                        )
                    else:
                        self._known[name] = index
                        self._report.attempt(fields.task_name, name, at, f"task {index + 1}: name")
                else:
                    self._report.attempt(fields.task_name, raw["name"], at, f"task {index + 1}: name")
            names.append(name)
        return names

    def _task(self, raw: dict[str, Any], path: Path, name: str | None, defaults: Fields) -> TaskSpec | None:
        where = f"task {quoted(name)}" if name else f"task {int(path[1]) + 1}"
        for key in raw:
            if key not in self._keys:
                self._report.unknown_key(key, path, self._table.keys, where)
        own = read_fields(self._report, raw, path, where, self._table)
        values = {**defaults.values, **own.values}
        if "ulimits" in own.values:
            values["ulimits"] = merged(defaults.values.get("ulimits", ()), own.values["ulimits"])
        for row in self._table.required:
            if row.attribute not in values and row.key not in own.bad and row.key not in defaults.bad:
                self._report.add(
                    path,
                    f"{where} has no {row.key}; write for instance {row.key}: {row.example}, here or under defaults",
                )
        command = values.get("command")
        if isinstance(command, tuple):
            if "shell" in own.values:
                self._report.add(
                    (*path, "shell"),
                    f"{where}: shell goes with a command written as text, and this one is a list; remove shell, "
                    "or write the command as text",
                    of_key=True,
                )
            values["shell"] = None
        needs = self._needs(raw.get("needs"), path, where, name)
        resources = {**defaults.resources, **own.resources} if own.resources else defaults.resources
        if own.resources:
            self._alone(own, defaults, resources, path, where)
        if resources.get("gpu_share_bytes"):
            self._gpu_share(own, defaults, resources, values, path, where)
        self._shared_memory(own, defaults, resources, path, where)
        env = {**defaults.env, **own.env} if own.env else defaults.env
        self._variables_once(values.get("secrets", ()), env, path, where)
        self._count_text(where, path, command, env)
        if self._report or name is None:
            return None
        task: TaskSpec = self._table.kind(
            name=name,
            needs=needs,
            env=tuple(sorted(env.items())),
            resources=self._resource_spec(resources),
            **values,
        )
        return task

    def _variables_once(self, uses: Iterable[SecretUse], env: dict[str, str], path: Path, where: str) -> None:
        """A variable that is a secret has one value."""
        for use in uses:
            if use.env in env:
                self._report.add(
                    (*path, "secrets"),
                    f"{where}: env and secrets both give {quoted(use.env)}; remove one of them",
                    of_key=True,
                )

    def _alone(self, own: Fields, defaults: Fields, resources: dict[str, Any], path: Path, where: str) -> None:
        """Resources of the task's own that say nothing, as what they are about is not asked for."""
        for row in self._need_another:
            if any(resources.get(self._parts[key].attribute) for key in row.without):
                continue
            if row.attribute in own.resources and (own.bad | defaults.bad).isdisjoint(row.without):
                self._report.add(
                    (*path, "resources", row.key),
                    f"{where}: {row.key} says nothing without GPUs; add gpus: 1 to resources, or remove {row.key}",
                    of_key=True,
                )

    def _gpu_share(
        self,
        own: Fields,
        defaults: Fields,
        resources: dict[str, Any],
        values: dict[str, Any],
        path: Path,
        where: str,
    ) -> None:
        """A share is of one GPU, beside other tasks, so it goes neither with whole GPUs nor without another try."""
        at: Path = (*path, "resources", "gpu_share") if "gpu_share_bytes" in own.resources else path
        if resources.get("gpus"):
            self._report.add(
                at,
                f"{where}: gpu_share and gpus: {resources['gpus']} are two ways to ask for GPUs; remove gpu_share, or "
                "write gpus: 0",
            )
        if not values.get("retries") and "retries" not in own.bad | defaults.bad:
            self._report.add(
                at,
                f"{where}: gpu_share needs retries: 1 or more, since a task that takes more than its share may disturb "
                "the others on that GPU",
            )

    def _shared_memory(self, own: Fields, defaults: Fields, resources: dict[str, Any], path: Path, where: str) -> None:
        """What lies in /dev/shm is memory of the task, so more than that could never be used."""
        shm = resources.get("shm_bytes")
        memory = resources.get("memory_bytes", self._parts["memory"].default)
        if shm is None or shm <= memory or not {"shm", "memory"}.isdisjoint(own.bad | defaults.bad):
            return
        key = "memory" if "memory_bytes" in own.resources and "shm_bytes" not in own.resources else "shm"
        if "shm_bytes" not in own.resources and key == "shm":
            if self._defaults_shm_told:
                return
            self._defaults_shm_told = True
            path, where = ("defaults",), "defaults"
            if self._report.source.origin((*path, "resources", "memory")):
                key = "memory"  # as nobody wrote that into the file
        most = format_size(memory)
        self._report.add(
            (*path, "resources", key),
            f"{where}: shm is {format_size(shm)}, more than memory, which is {most}. What lies in /dev/shm counts as "
            f"memory: write shm of {most} at most, or more memory",
            suggestion=most if key == "shm" else format_size(shm),
        )

    def _count_text(self, where: str, path: Path, command: Any, env: dict[str, str]) -> None:
        env_bytes = sum(map(_bytes_of_pair, env.items()))
        if isinstance(command, tuple):
            env_bytes += sum(_bytes_of(word) + 1 for word in command)
        elif isinstance(command, str):
            self._text_bytes += _bytes_of(command)
        self._text_bytes += env_bytes
        if env_bytes > fields.MAX_ENV_BYTES:
            self._report.add(
                path, f"{where}: env and a command's list come to more than 1 MiB, which no program can be given"
            )

    def _resource_spec(self, given: dict[str, Any]) -> ResourceSpec:
        key = tuple(given.items())
        spec = self._resource_specs.get(key)
        if spec is None:
            values = dict(given)
            for row in self._need_another:
                # From the defaults, they may meet a task without GPUs and then mean nothing.
                if not any(values.get(self._parts[key].attribute) for key in row.without):
                    values.pop(row.attribute, None)
            spec = self._parts.made(values)
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
                    self._report.attempt(_need_on, word, (*at, task), f"{where}: need {quoted(task)}")
                if self._need_known(task, (*at, task), where, name, of_key=True):
                    wanted[task] = on or NeedOn.SUCCESS
        elif isinstance(raw, list | tuple):
            for index, task in enumerate(raw):
                here: Path = (*at, index)
                if isinstance(task, bool | int | float):
                    self._report.attempt(fields.text, task, here, f"{where}: a need")
                elif not isinstance(task, str):
                    hint = "as a mapping without '-': needs: {prepare: any}" if isinstance(task, dict) else "a name"
                    self._report.add(here, f"{where}: a need is {fields.kind_of(task)}; write {hint}")
                elif task in wanted:
                    self._report.add(here, f"{where} needs {quoted(task)} twice; keep one of the two")
                elif self._need_known(task, here, where, name):
                    wanted[str(task)] = NeedOn.SUCCESS
        else:
            hint = f": needs: [{printable(raw, 63)}]" if isinstance(raw, str) else ""
            self._report.wrong_kind(at, f"{where}: needs", raw, f"a list of task names{hint}")
        self._edges += len(wanted)
        if len(wanted) == 1:
            return tuple(Need(task, on) for task, on in wanted.items())
        return tuple(Need(task, wanted[task]) for task in sorted(wanted))

    def _need_known(self, task: str, at: Path, where: str, name: str | None, *, of_key: bool = False) -> bool:
        if task == name:
            self._report.add(at, f"{where} needs itself; remove {quoted(task)} from its needs", of_key=of_key)
            return False
        if task in self._known:
            return True
        if not self._report.room():
            self._report.skip()
            return False
        suggestion = nearest(task, self._known, self._lower)
        known = [other for other in self._known if other != name]
        if suggestion:
            hint = f"did you mean {quoted(suggestion)}?"
        elif len(known) <= 10:
            hint = f"known are {', '.join(map(quoted, known))}" if known else "it is the only task"
        else:
            hint = f"known are {', '.join(map(quoted, known[:10]))} and {len(known) - 10} more"
        self._report.add(
            at,
            f"{where} needs {quoted(task)}, which does not exist; {hint}",
            of_key=of_key,
            suggestion=suggestion,
            allowed=tuple(known[:20]),
            word=task,
        )
        return False

    def _one(self, raw: dict[str, Any], key: str, check: Callable[[Any], Any], path: Path) -> Any:
        return self._report.attempt(check, raw[key], (*path, key), key) if key in raw else None

    def _required_one(self, raw: dict[str, Any], key: str, check: Callable[[Any], Any], example: str) -> Any:
        if key not in raw:
            self._report.add((), f"the job file has no {key}; write {example}")
            return None
        return self._one(raw, key, check, ())


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _bytes_of_pair(pair: tuple[str, str]) -> int:
    return _bytes_of(pair[0]) + _bytes_of(pair[1]) + 2
