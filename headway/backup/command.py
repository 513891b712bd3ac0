"""backup, restore: the state of this machine's managers into one archive, and back."""

from __future__ import annotations

import time
from pathlib import Path

import click

from ..config import default_path, default_state, load
from ..rpc.versions import MINE
from ..units import round_size
from .archive import verified
from .making import make_backup
from .manifest import Manifest
from .parts import SERVICES
from .restoring import RestoreWishes, restore

_SERVICE = click.Choice(SERVICES)
_CONFIG_HELP = "headway.toml; HEADWAY_CONFIG, else /etc/headway/headway.toml, else that of `headway up`."


@click.command("backup")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Write nothing: check every file in the backup TARGET.")
@click.option("--service", "services", type=_SERVICE, multiple=True, help="Only this one; may be given more than once.")
@click.option("--without-trust", is_flag=True, help="Leave out the folder of certificates and the authority's key.")
@click.option("--config", "config_path", type=click.Path(path_type=Path), help=_CONFIG_HELP)
@click.option("--state", type=click.Path(path_type=Path, file_okay=False), help="The state folder of `headway up`.")
def backup(
    target: Path,
    verify: bool,
    services: tuple[str, ...],
    without_trust: bool,
    config_path: Path | None,
    state: Path | None,
) -> None:
    """Copy the state of this machine's managers into TARGET, while they run.

    TARGET is a new file, or a folder, in which the file's name tells cluster and time. It holds secrets: its mode is
    0600. What lies on the shared mount is not in it: homes, logs, images, datasets and code need a backup of their own.
    """
    if verify:
        manifest, _ = verified(target, lambda member: False)
        _tell(target, manifest)
        return
    path = _config_path(config_path, state)
    made = make_backup(load(path).config, path, target, services=services, with_trust=not without_trust, version=MINE)
    _tell(made.path, made.manifest)
    click.echo(
        f"Not in it: what lies on the shared mount {made.manifest.mount}. Copy that too (docs/operations/backup.md)."
    )


@click.command("restore")
@click.argument("archive", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--service", "services", type=_SERVICE, multiple=True, help="Only this one; may be given more than once.")
@click.option("--replace", is_flag=True, help="Put databases and files that are there aside, under another name.")
@click.option("--config", "config_path", type=click.Path(path_type=Path), help=_CONFIG_HELP)
@click.option("--state", type=click.Path(path_type=Path, file_okay=False), help="The state folder of `headway up`.")
def restore_command(
    archive: Path, services: tuple[str, ...], replace: bool, config_path: Path | None, state: Path | None
) -> None:
    """Bring the state in ARCHIVE back to this machine, where no service of the cluster runs.

    Everything is checked before anything changes. Where no headway.toml is, that of the backup is written.
    """
    path = _config_path(config_path, state)
    plan, note = restore(archive, path, RestoreWishes(services, replace), MINE)
    names = ", ".join(place.service for place in plan.databases)
    click.echo(f"Restored {names} of the cluster {plan.config.cluster.name} ({path}).")
    click.echo(note.sentence(_when(note.made_at)))
    for sentence in plan.warnings:
        click.echo(f"headway: {sentence}", err=True)
    click.echo("Start the services now. Workers keep what they run, and tell it as soon as they hear the managers.")


def _config_path(config_path: Path | None, state: Path | None) -> Path:
    if config_path is not None and state is not None:
        raise click.UsageError("--config and --state say the same in two ways: give one of them")
    if config_path is not None:
        return config_path
    if state is not None:
        return state.expanduser().absolute() / "headway.toml"
    path = default_path()
    return path if path.exists() else default_state() / "headway.toml"


def _tell(path: Path, manifest: Manifest) -> None:
    size = round_size(path.stat().st_size)
    click.echo(
        f"{path}: {size}, of the cluster {manifest.cluster}, {_when(manifest.made_at)}, Headway {manifest.version}."
    )
    whole = [member for member in manifest.members if not member.key.startswith("database.")]
    click.echo(f"It has the databases of {', '.join(manifest.services)}, and {len(whole)} files.")


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
