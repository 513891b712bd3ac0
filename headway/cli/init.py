"""init: the first machine of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from .checks_shown import show_checks

if TYPE_CHECKING:
    from ..setup.units import SystemdUnit

STATE = Path("/var/lib/headway")
CONFIG = Path("/etc/headway/headway.toml")
_UNIT_DIR = Path("/etc/systemd/system")


def unit_options(command: Any) -> Any:
    """--unit-dir and --no-unit, of init and join."""
    for option in (
        click.option(
            "--unit-dir",
            type=click.Path(path_type=Path, file_okay=False),
            default=_UNIT_DIR,
            show_default=True,
            help="Where the systemd units go.",
        ),
        click.option("--no-unit", is_flag=True, help="Write no systemd units; start the services by hand."),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of headway.toml besides, such as worker.runtime=scripted. May be repeated.",
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.option("--cluster", default="headway", show_default=True, help="Name of the cluster.")
@click.option(
    "--address",
    metavar="HOST",
    default="127.0.0.1",
    show_default=True,
    help="This machine's address, by which the others reach it.",
)
@click.option("--mount", type=click.Path(path_type=Path, file_okay=False), help="The folder that all machines share.")
@click.option("--worker", is_flag=True, help="Run tasks on this machine too.")
@click.option("--name", "node", help="This machine's name in the cluster, with --worker [its host name].")
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=STATE,
    show_default=True,
    help="Folder for databases and certificates.",
)
@click.option("--config", type=click.Path(path_type=Path), default=CONFIG, show_default=True, help="The file to write.")
@click.option(
    "--elsewhere",
    multiple=True,
    metavar="ROLE=HOST[:PORT]",
    help="A manager that another machine will run: job_manager or task_manager. May be repeated.",
)
@click.option("--tls-cert", type=click.Path(path_type=Path, dir_okay=False), help="Certificate of the web page, PEM.")
@click.option("--tls-key", type=click.Path(path_type=Path, dir_okay=False), help="Its private key, PEM.")
@click.option("--behind-proxy", default="", metavar="NETWORK", help="The proxy in front of the page, which does TLS.")
@click.option("--dry-run", is_flag=True, help="Only say what would be made.")
@unit_options
def init(
    cluster: str,
    address: str,
    mount: Path | None,
    worker: bool,
    node: str | None,
    state: Path,
    config: Path,
    elsewhere: Sequence[str],
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: str,
    dry_run: bool,
    unit_dir: Path,
    no_unit: bool,
    settings: Sequence[str],
) -> None:
    """Set up a cluster of several machines, on its first one.

    It makes the cluster's authority and certificates, headway.toml, the shared folder with its marker, and systemd
    units, and starts them. `headway nodes invite` then makes tokens for other machines, and `headway join` brings them
    in. It never overwrites anything; after a kill, run it again.
    """
    from ..config import HeadwayConfig
    from ..config.checks import derived
    from ..setup import config_text
    from ..setup import init as setup

    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together")
    tls = None if tls_cert is None or tls_key is None else (str(tls_cert.absolute()), str(tls_key.absolute()))
    options = setup.InitOptions(
        cluster=cluster,
        address=address.strip("[]"),
        state=state.absolute(),
        config=config.absolute(),
        mount=mount.absolute() if mount is not None else None,
        worker=worker,
        node=node or derived(HeadwayConfig())[0].worker.node_id,
        unit_dir=None if no_unit else unit_dir.absolute(),
        elsewhere=dict(_elsewhere(text) for text in elsewhere),
        behind_proxy=behind_proxy,
        tls=tls,
        settings=dict(config_text.read_setting(text) for text in settings),
    )
    planned = setup.plan(options)
    if dry_run:
        from ..setup import unfinished

        setup.refuse_what_is_there(planned, unfinished.read(options.state) if options.state.exists() else None)
        click.echo("Nothing is changed now. These would be made:")
        for line in planned.told():
            click.echo(f"  {line}")
        return
    from ..doctor import machine

    loaded = setup.carry_out(planned)
    http = loaded.config.httpserver
    url = f"{'https' if http.tls_cert else 'http'}://{config_text.address(http.bind, http.port)}"
    show_checks(machine.look(loaded.config, planned.roles, starts_elsewhere=False))
    click.echo(f"The cluster {cluster} is set up: {options.config}, certificates in {planned.trust.folder}.")
    start(planned.units, planned.roles, options.config, unit_dir=None if no_unit else unit_dir.absolute())
    click.echo(f"The first start writes the first admin's name and password into {http.first_admin_file}. Then:")
    if planned.own_page_certificate:
        click.echo(f"  export SSL_CERT_FILE={planned.trust.ca}")
    click.echo(f"  headway login {url} --user admin")
    click.echo("  headway nodes invite        # prints the command for another machine")


def _elsewhere(text: str) -> tuple[Any, str]:
    from ..config import split_address
    from ..setup import config_text
    from ..trust.identity import MANAGERS, Role

    name, sign, where = text.partition("=")
    role = Role(name) if name in set(Role) else None
    if role not in MANAGERS or not sign or not where:
        raise InvalidInput(f"{text[:80]!r} can't be taken: write --elsewhere as in job_manager=10.0.0.2.")
    try:
        return role, config_text.address(*split_address(where))
    except ValueError:
        return role, config_text.address(where.strip("[]"), config_text.PORTS[role])


def start(units: Sequence[SystemdUnit], roles: Any, config: Path, *, unit_dir: Path | None) -> None:
    """Starts what was installed where systemd runs here; else says how a person does."""
    from ..setup import units as systemd

    names = [one.name for one in units]
    installed = unit_dir == systemd.FOLDER
    if installed and systemd.systemd_runs():
        why = systemd.start(names)
        click.echo(f"{' '.join(names)}: {why or 'started, now and at each boot'}")
        return
    click.echo("Start it:")
    for line in systemd.by_hand(names, systemd.serve_commands(roles, config), installed=installed):
        click.echo(f"  {line}")
