"""doctor: what is wrong on this machine, or anywhere in the cluster, and what to do about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from ..errors import HeadwayError
from ..model.findings import Check, problem
from . import server_part
from .checks_shown import as_json, show_checks, status_of
from .common import client, output_option, print_json

_ROLES = ("http_server", "job_manager", "task_manager", "resource_manager", "worker")


@click.command()
@click.option("--cluster", "whole", is_flag=True, help="Ask the server about all machines and services (admins).")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="headway.toml; HEADWAY_CONFIG, else /etc/headway/headway.toml, else that of `headway up`.",
)
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(_ROLES),
    help="A service that should run here [those that certificates or headway.toml tell]. May be repeated.",
)
@output_option
@click.pass_context
def doctor(ctx: click.Context, whole: bool, config_path: Path | None, roles: Sequence[str], output: str) -> None:
    """Say what is wrong on this machine, each thing with its remedy.

    Run it as the user of the services, mostly root. It mends nothing. Exit status: 0 all is well, 1 warnings,
    2 problems.
    """
    if whole and (config_path or roles):
        raise click.UsageError("--config and --role are for this machine, and --cluster asks the server")
    found = _whole_cluster() if whole else _this_machine(config_path, roles)
    if output == "json":
        print_json(as_json(found))
    else:
        show_checks(found)
    ctx.exit(status_of(found))


def _this_machine(config_path: Path | None, wanted: Sequence[str]) -> list[Check]:
    with server_part.door("doctor"):
        from ..config import default_path, load
        from ..doctor import machine
        from ..trust.identity import Role

    try:
        loaded = load(config_path or default_path())
    except HeadwayError as error:
        told = [one.message for one in error.problems] or [error.message]
        return [problem("headway.toml", one, "Mend it; docs/configuration.md has all keys.") for one in told]
    config = loaded.config
    roles = {Role(one) for one in wanted} or machine.roles_here(config, loaded.sources)
    if not roles:
        return [
            problem(
                "services",
                "No service of Headway is set up on this machine.",
                "`headway init`, `headway join`, or name one by --role.",
            )
        ]
    return machine.examine(config, roles, time.time())


def _whole_cluster() -> list[Check]:
    from ..client import cluster_look
    from ..client.trust import TrustApi

    with client() as http:
        found = cluster_look.services(http.readiness())
        for what, ask in (
            ("machines", lambda: cluster_look.nodes(http.nodes(), http.server_version())),
            ("certificates", lambda: cluster_look.certificates(TrustApi(http).certificates(), time.time())),
            ("queue", lambda: cluster_look.queue(http.queue(limit=1))),
        ):
            found += _asked(what, ask)
    return found


def _asked(what: str, ask: Callable[[], list[Check]]) -> list[Check]:
    """One part; where a service behind it is away, the others are told all the same."""
    try:
        return ask()
    except HeadwayError as error:
        if getattr(error, "status", 0) in (401, 403):
            raise
        return [problem(what, f"They can't be looked at: {error.message}", "Mend the services named above first.")]
