"""join: brings this machine into a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from .checks_shown import show_checks
from .common import lines_of_input
from .init import CONFIG, STATE, start, unit_options


@click.command()
@click.argument("address")
@click.option(
    "--token",
    required=True,
    help="What `headway nodes invite` printed. It works once. `-` reads it from standard input.",
)
@click.option("--name", default="", help="This machine's name in the cluster [that of the token, or its host name].")
@click.option(
    "--address",
    "door",
    metavar="HOST[:PORT]",
    default="",
    help="This machine's address, by which the others reach it [the one from which it reaches the cluster].",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=STATE,
    show_default=True,
    help="Folder for state and certificates.",
)
@click.option("--config", type=click.Path(path_type=Path), default=CONFIG, show_default=True, help="The file to write.")
@click.option(
    "--renew",
    is_flag=True,
    help="It was in the cluster before: its files are kept but certificate and key.",
)
@unit_options
def join(
    address: str,
    token: str,
    name: str,
    door: str,
    state: Path,
    config: Path,
    renew: bool,
    unit_dir: Path,
    no_unit: bool,
    settings: Sequence[str],
) -> None:
    """Bring this machine into the cluster whose page is at ADDRESS.

    It asks whether it may, and only then changes anything. It makes its own key, gets a certificate, writes
    headway.toml and a systemd unit, and says what is still to mend here. After a kill, run it again with the same
    token.
    """
    from ..doctor import machine
    from ..setup import asking, config_text
    from ..setup import join as setup
    from ..trust.joining import read_token

    read = read_token(lines_of_input(1)[0] if token == "-" else token)
    settings_read = dict(config_text.read_setting(text) for text in settings)
    url = asking.checked_address(address)
    options = setup.JoinOptions(
        address=url,
        token=read,
        name=name,
        state=state.absolute(),
        config=config.absolute(),
        door=door,
        unit_dir=None if no_unit else unit_dir.absolute(),
        renew=renew,
        settings=settings_read,
    )
    joined = setup.join(options)
    role = joined.identity.role
    show_checks(
        machine.look(joined.config, [role], clock_off_s=joined.clock_off_s, cluster_version=joined.cluster_version)
    )
    if joined.kept:
        click.echo(
            f"{joined.identity} of {joined.identity.cluster} has a new certificate. "
            "A service that runs takes it by itself."
        )
        return
    click.echo(f"This machine is {joined.identity} of the cluster {joined.identity.cluster}: {options.config}.")
    start(joined.units, [role], options.config, unit_dir=options.unit_dir)
