"""prepare-mount: makes a folder the shared mount of a cluster, once."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..errors import ConfigInvalid
from ..mount import MARKER, prepare_local


@click.command("prepare-mount")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--cluster", default="headway", show_default=True, help="Its name, as `cluster.name` of headway.toml.")
@click.option("--local", is_flag=True, help="FOLDER is a plain folder of this machine, nothing mounted.")
def prepare_mount(folder: Path, cluster: str, local: bool) -> None:
    """Make FOLDER the shared mount of a cluster: its folders, and the file that tells the mount from the bare folder
    below it. Run it once, as root, on one machine, while the share is mounted; again it changes nothing."""
    folder = folder.absolute()
    if not local and not _mounted(folder):
        raise ConfigInvalid(
            f"Nothing is mounted at {folder}: mount the share first, or say --local if this folder is for this machine "
            "alone."
        )
    layout = prepare_local(folder, cluster)
    click.echo(f"{layout.root / MARKER} says {cluster}: services with `cluster.mount = {layout.root}` find it.")


def _mounted(folder: Path) -> bool:
    # Also a folder inside of a share will do.
    root = os.stat("/").st_dev
    return folder.exists() and os.stat(folder).st_dev != root
