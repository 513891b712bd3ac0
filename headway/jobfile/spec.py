"""What a job file says, with every default applied. Pure values; reading is in parse.py, writing YAML in
emit.py.

Each field of a task has its row (table.py) where it is declared, here or in resources.py.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Final

from headway.jobfile import fields
from headway.jobfile import secrets as of_secrets
from headway.jobfile.resources import DEFAULT_RESOURCES, RESOURCES, ResourceSpec
from headway.jobfile.secrets import SecretUse
from headway.jobfile.table import Form, Option, row, table_of
from headway.jobfile.ulimits import Ulimit, as_json
from headway.jobfile.words import Entrypoint, LogLimitAction, NeedOn, Network, Priority, RunAs, Shell
from headway.units import GIB, format_duration, format_size

__all__ = [
    "RESOURCES",
    "TASK",
    "VERSION",
    "Entrypoint",
    "JobSpec",
    "LogLimitAction",
    "Need",
    "NeedOn",
    "Network",
    "Priority",
    "ResourceSpec",
    "RunAs",
    "SecretUse",
    "Shell",
    "TaskSpec",
    "Ulimit",
]

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Need:
    """An edge of the DAG: the task that has to end first, and how."""

    task: str
    on: NeedOn = NeedOn.SUCCESS


def _needs_as_json(needs: tuple[Need, ...]) -> list[str] | dict[str, str]:
    if all(need.on is NeedOn.SUCCESS for need in needs):
        return [need.task for need in needs]
    return {need.task: need.on.value for need in needs}


def _command_as_json(command: str | tuple[str, ...]) -> str | list[str]:
    return command if isinstance(command, str) else list(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task with every default applied. The fields stand in the order of a job file.

    ``needs`` and ``env`` are sorted: neither has an order that means anything, and a JSON column or a
    protobuf map may not keep one.
    """

    name: str = field(
        metadata=row(
            "name",
            "letters (a-z, A-Z), digits, `.`, `_`, `-`, starting with a letter or digit, up to 63; unique in the job",
            str,
            shared=False,
            wire="name",
        )
    )
    needs: tuple[Need, ...] = field(  # each task once, in the order of their names
        default=(),
        metadata=row(
            "needs",
            "tasks that have to end first: a list of names, or a mapping of names to `success`, `failure` or `any`",
            None,
            write=_needs_as_json,
            foreign=("depends_on", "dependson", "dependencies", "depends", "after", "requires", "deps"),
            shared=False,
        ),
    )
    image: str = field(
        metadata=row(
            "image",
            "`NAME`, `NAME:TAG`, `GROUP/NAME:TAG`, `HOST:PORT/NAME:TAG`, `NAME@sha256:DIGEST`",
            str,
            read=fields.image,
            example="base/python:1",
            foreign=("container", "docker_image"),
            wire="image",
            option=Option("--image", default="base/python:1"),
        )
    )
    command: str | tuple[str, ...] = field(  # text: a script for ``shell``; tuple: argv
        metadata=row(
            "command",
            "text: a script; a list: a program and its arguments",
            str | list[str],
            write=_command_as_json,
            example="python3 train.py",
            foreign=("script", "commands", "cmd", "run", "args", "exec"),
        )
    )
    shell: Shell | None = field(  # None exactly when ``command`` is a tuple
        default=Shell.SH,
        metadata=row(
            "shell",
            "for a text only. `sh`: `/bin/sh -e`; `bash`: `bash -e -o pipefail`",
            Shell,
            read=fields.choice(Shell),
            write=str,
            wire="shell",
            form=Form(label="Shell", place=10, hint="of a script", more=True),
        ),
    )
    entrypoint: Entrypoint = field(
        default=Entrypoint.REPLACE,
        metadata=row(
            "entrypoint",
            "`replace`: `command` stands for the image's ENTRYPOINT and CMD. `image`: ENTRYPOINT is kept and `command` "
            "is its arguments",
            Entrypoint,
            read=fields.choice(Entrypoint),
            write=str,
            wire="entrypoint",
            form=Form(label="Entrypoint of the image", place=11, more=True),
        ),
    )
    env: tuple[tuple[str, str], ...] = field(  # each name once, in the order of the names
        default=(),
        metadata=row(
            "env",
            "a mapping of names to texts",
            dict[str, str],
            write=dict,
            foreign=("environment", "envs", "variables", "env_vars"),
            option=Option("--env", "May be given several times.", many=True, metavar="NAME=VALUE"),
        ),
    )
    secrets: tuple[SecretUse, ...] = field(  # no variable and no file twice; in the order written
        default=(),
        metadata=row(
            "secrets",
            "your secrets that the task is given (`headway secrets set NAME`): `NAME` is the environment variable of "
            "that name, `{name: NAME, env: OTHER}` a variable of another name, `{name: NAME, file: id_rsa}` the file "
            "`/run/secrets/id_rsa`. The value counts that a secret has when an attempt starts",
            list[str | dict[str, str]],
            write=of_secrets.as_json,
            examples=(["HF_TOKEN", {"name": "WANDB", "env": "WANDB_API_KEY"}, {"name": "KEY", "file": "id_rsa"}],),
            foreign=("secret",),
            option=Option(
                "--secret",
                "A secret of yours as an environment variable, or as a file of /run/secrets.",
                many=True,
                metavar="NAME[=ENV|=/run/secrets/FILE]",
            ),
        ),
    )
    working_dir: str | None = field(
        default=None,
        metadata=row(
            "working_dir",
            "an absolute path; made if it isn't there",
            str,
            read=fields.working_dir,
            default_about="`/root/code` where there is `code`, else the image's",
            foreign=("workdir", "cwd", "chdir", "working_directory"),
            wire="working_dir",
            option=Option("--workdir", "Working directory; the image's unless given."),
            form=Form(
                label="Working folder", place=6, hint="the image's if empty", placeholder="/root/nfs", exact=True
            ),
        ),
    )
    code: str | None = field(
        default=None,
        metadata=row(
            "code",
            "the digest of a snapshot of code (`sha256:` and 64 hex digits), seen read-only at `/root/code`; "
            "`headway submit --code DIR` makes the snapshot (`POST /code`) and fills this in for every task that names "
            "none",
            str,
            read=fields.code,
            wire="code",
            form=Form(label="Code", place=20, hint="digest of a snapshot", placeholder="sha256:…", more=True),
        ),
    )
    datasets: tuple[str, ...] = field(
        default=(),
        metadata=row(
            "datasets",
            "datasets, mounted read-only at `/root/datasets/NAME`: `NAME` is the newest version when the job is "
            "submitted, `NAME@VERSION` exactly that one; each name once",
            list[str],
            write=list,
            examples=(["mnist"], ["mnist@2"]),
            foreign=("data", "dataset"),
            wire="datasets",
            option=Option("--dataset", "May be given several times.", many=True, metavar="NAME[@VERSION]"),
        ),
    )
    resources: ResourceSpec = field(
        default=DEFAULT_RESOURCES,
        metadata=row(
            "resources",
            "what one run is given of a machine",
            None,
            write=ResourceSpec.to_json,
            default_about="",
            foreign=("resource", "limits"),
            parts=ResourceSpec,
        ),
    )
    ulimits: tuple[Ulimit, ...] = field(  # each name once, in the order of the names
        default=(),
        metadata=row(
            "ulimits",
            "limits on each process: `nofile` (open files, a number) and `memlock` (locked memory, a size or "
            "`unlimited`). One value is the soft and the hard limit; `{soft: 1024, hard: 65536}` says both. The task "
            "goes to a machine whose engine gives that much",
            dict[str, int | str | dict[str, int | str]],
            write=as_json,
            default_about="as the machine's engine has them",
            examples=({"nofile": 65536, "memlock": "unlimited"},),
            foreign=("ulimit", "rlimits", "rlimit", "nofile", "memlock"),
            option=Option(
                "--ulimit", "For instance nofile=65536 or memlock=unlimited.", many=True, metavar="NAME=SOFT[:HARD]"
            ),
        ),
    )
    timeout_s: float = field(  # of run time; whole milliseconds
        metadata=row(
            "timeout",
            "how long one run may take; counts from the start of your program, waiting is free. The shorter, the "
            "sooner it starts. `headway submit --dry-run` tells what your past runs took, and "
            "`headway extend ID/TASK 30m` gives a running task more",
            str,
            read=fields.duration,
            write=format_duration,
            example="30m",
            examples=("30m",),
            foreign=("time_limit", "timelimit", "walltime", "time", "max_time", "timeout_s", "deadline"),
            wire="timeout_s",
            option=Option("--timeout", "Longest run time, for instance 90s, 15m, 2h.", "10m"),
            form=Form(label="Timeout", place=1, hint="90s, 15m, 2h", start="10m", width=8, required=True),
        )
    )
    grace_s: float = field(  # TERM to KILL; whole milliseconds
        default=10.0,
        metadata=row(
            "grace",
            f"time between TERM and KILL, up to `{format_duration(fields.MAX_GRACE_S)}`",
            str,
            read=fields.grace,
            write=format_duration,
            foreign=("grace_period", "stop_grace_period"),
            wire="grace_s",
            option=Option("--grace", "Time from SIGTERM to SIGKILL at a stop; 10s unless given."),
            form=Form(label="Grace", place=12, hint="from TERM to KILL", width=8, more=True),
        ),
    )
    retries: int = field(  # runs after the first, after a failure of the user's own process
        default=0,
        metadata=row(
            "retries",
            f"0 to {fields.MAX_RETRIES} further runs after a failure of your own program (faults of the platform have "
            "retries of their own). `retries: 3` is at most 4 runs",
            int,
            read=fields.whole(fields.MAX_RETRIES),
            foreign=("retry", "max_retries", "restarts", "retry_limit"),
            wire="retries",
            option=Option("--retries", default=0),
            form=Form(label="Retries", place=2, width=4),
        ),
    )
    user: RunAs = field(
        default=RunAs.ACCOUNT,
        metadata=row(
            "user",
            "`account`: your uid and gid. `image`: as the image says, where an admin allows it",
            RunAs,
            read=fields.choice(RunAs),
            write=str,
            wire="user",
            form=Form(label="Runs as", place=13, more=True),
        ),
    )
    network: Network = field(
        default=Network.OUTGOING,
        metadata=row(
            "network",
            "`outgoing`: the world, but no other task. `job`: besides, the tasks of this job with `job` on the same "
            "machine, by their names. `none`: nothing",
            Network,
            read=fields.choice(Network),
            write=str,
            form=Form(label="Network", place=7),
        ),
    )
    output_path: str | None = field(  # relative to the personal space, normalised
        default=None,
        metadata=row(
            "output_path",
            "a folder of your personal space where stdout and stderr are also put; relative, without `..`",
            str,
            read=fields.output_path,
            foreign=("output", "outputs", "output_dir"),
            wire="output_path",
            form=Form(
                label="Output also to",
                place=19,
                hint="a folder of your files",
                placeholder="results/run1",
                exact=True,
                more=True,
            ),
        ),
    )
    log_limit_bytes: int = field(
        default=GIB,
        metadata=row(
            "log_limit",
            "size of stdout and stderr together",
            str,
            read=fields.size,
            write=format_size,
            wire="log_limit_bytes",
            form=Form(label="Size of its log", place=17, hint="1GiB", width=8, more=True),
        ),
    )
    log_limit_action: LogLimitAction = field(
        default=LogLimitAction.DROP,
        metadata=row(
            "log_limit_action",
            "past the limit: `drop` (dropped, counted and told in the log) or `kill` (the task ends)",
            LogLimitAction,
            read=fields.choice(LogLimitAction),
            write=str,
            wire="kill_at_log_limit",
            wire_true=LogLimitAction.KILL,
            form=Form(label="Past that size", place=18, more=True),
        ),
    )

    def to_json(self) -> dict[str, Any]:
        """As in a job file, without what equals a default."""
        return table_of(type(self)).written(self)


TASK: Final = table_of(TaskSpec)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A whole job with every default applied. Task names are unique and every need names a task; that
    there is no cycle is JobManager's to say."""

    name: str
    tasks: tuple[TaskSpec, ...]
    priority: Priority = Priority.NORMAL
    version: int = VERSION

    def to_json(self) -> dict[str, Any]:
        """A job file that says the same, as plain JSON values: reading it gives an equal JobSpec.

        Defaults of the schema are left out (``version`` pins what they are), the job's own ``defaults``
        are spelled out in each task."""
        return {
            "version": self.version,
            "name": self.name,
            "priority": self.priority.value,
            "tasks": [task.to_json() for task in self.tasks],
        }

    @property
    def spec_hash(self) -> str:
        """SHA-256 in hex of what the job says, whatever the spelling, key order or format of the file it
        came from."""
        canonical = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()
