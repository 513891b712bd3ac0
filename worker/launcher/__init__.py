"""The container launcher: its C sources, its build, and the path of the binary."""

from __future__ import annotations

from pathlib import Path

from headway.errors import HeadwayError

# Launcher and Worker must agree on what ticket and lock of a box mean (docs/box.md): it stands in the binary.
PROTOCOL = b"headway box protocol 4"
_BUILD = (
    "Install Headway again, or run `python worker/launcher/build.py` in a checkout (it needs the PyPI package ziglang)."
)


# The exit code of a launcher that has not found the box of its Worker. Nothing was started then.
FOREIGN_BOX = 120


class LauncherMissing(HeadwayError):
    """The launcher was not built with this installation, or is an old one, so no container can be started."""

    code = "FAILED_PRECONDITION"
    http_status = 503
    slug = "launcher-missing"
    title = "The container launcher is not built"


def launcher_path() -> Path:
    """The static launcher of this installation.

    Raises LauncherMissing if the package was installed without it, or if it is that of an older Headway.
    """
    path = Path(__file__).resolve().parent / "bin" / "headway-launcher"
    if not path.is_file():
        raise LauncherMissing(f"The container launcher is missing at {path}. {_BUILD}")
    check_protocol(path)
    return path


def check_protocol(binary: Path) -> None:
    """Raises LauncherMissing if this launcher keeps to another protocol of the box than the Worker."""
    if PROTOCOL + b"\0" not in binary.read_bytes():
        raise LauncherMissing(f"The container launcher at {binary} is of another version of Headway. {_BUILD}")
