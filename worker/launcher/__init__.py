"""The container launcher: its C sources, its build, and the path of the binary."""

from __future__ import annotations

from pathlib import Path

from headway.errors import HeadwayError


class LauncherMissing(HeadwayError):
    """The launcher was not built with this installation, so no container can be started."""

    code = "FAILED_PRECONDITION"
    http_status = 503
    slug = "launcher-missing"
    title = "The container launcher is not built"


def launcher_path() -> Path:
    """The static launcher of this installation.

    Raises LauncherMissing if the package was installed without it.
    """
    path = Path(__file__).resolve().parent / "bin" / "headway-launcher"
    if not path.is_file():
        raise LauncherMissing(
            f"The container launcher is missing at {path}. Install Headway again, or run "
            "`python worker/launcher/build.py` in a checkout (it needs the PyPI package ziglang)."
        )
    return path
