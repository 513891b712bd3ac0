"""prepare-mount: makes a folder the shared mount of a cluster, once."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..errors import ConfigInvalid


@click.command("prepare-mount")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--cluster",
    default="headway",
    show_default=True,
    help="Name of the cluster: the same as `cluster.name` in headway.toml.",
)
@click.option("--local", is_flag=True, help="FOLDER is a plain folder of this machine, nothing mounted.")
def prepare_mount(folder: Path, cluster: str, local: bool) -> None:
    """Make FOLDER the shared mount of a cluster.

    It makes the folders that Headway needs, and a marker file. No service writes where that file is missing, so nothing
    is written to the disk below a share that is not mounted.

    Run it once, as root, on one machine, while the share is mounted. A second run changes nothing.
    """
    # Imported late: it is in the server's part.
    from ..mount import MARKER, prepare_local

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
