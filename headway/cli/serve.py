"""serve: one service in this process."""

from __future__ import annotations

import importlib
import os
import resource
from pathlib import Path

import click

SERVICES = ("httpserver", "job_manager", "task_manager", "resource_manager", "worker")
_FILES = 65_536


class _ServiceName(click.ParamType):  # type: ignore[type-arg]
    name = "service"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        word = value.lower().replace("-", "_")
        word = {"http_server": "httpserver"}.get(word, word)
        if word not in SERVICES:
            self.fail(f"{value!r} is none of {', '.join(SERVICES)}.", param, ctx)
        return word


@click.command()
@click.argument("service", type=_ServiceName(), metavar="SERVICE")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="headway.toml; HEADWAY_CONFIG, else /etc/headway/headway.toml, else that of `headway up`.",
)
def serve(service: str, config_path: Path | None) -> None:
    """Run SERVICE (httpserver, job_manager, task_manager, resource_manager or worker) until it is told to stop."""
    status = run(service, config_path)
    from ..lifecycle import exit_now

    exit_now(status)


def run(service: str, config_path: Path | None) -> int:
    """Loads the configuration and runs the service; returns the exit status of the process."""
    # Before the first import of grpc, which reads them once: its own lines and fork handlers help nobody here.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    from .. import logs
    from ..config import default_path, load
    from ..errors import ConfigInvalid
    from ..lifecycle import run_service
    from ..notify import notify_failure

    try:
        config = load(config_path or default_path()).config
        # By name: a laptop with the client alone has no such room.
        importlib.import_module("headway.backup.notes").refuse_unfinished(config.cluster.state_dir)
    except ConfigInvalid as error:
        notify_failure(error)
        raise
    file = config.log.file.replace("{service}", service)
    try:
        logs.setup(service=service, level=config.log.level, fmt=config.log.format, file=file)
    except OSError as error:
        raise ConfigInvalid(f"[log] file {file} can't be written: {error.strerror}.") from error
    _allow_many_files()
    # By name: the kernel imports no service.
    app = importlib.import_module(f"{service}.app")
    return run_service(app.serve(config))


def _allow_many_files() -> None:
    """The usual soft limit of 1024 is for programs that use select(); each open page and log needs a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
