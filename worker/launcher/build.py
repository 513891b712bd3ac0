"""Compiles the launcher with PyPI's `ziglang`, without a compiler, libc or headers of the machine.

It imports nothing of Headway, since the package's build hook loads this file by its path.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "headway-launcher"
_FLAGS = ("-std=c11", "-Os", "-static", "-s", "-Wall", "-Wextra", "-Werror", "-fno-sanitize=undefined")
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


class LauncherNotBuilt(RuntimeError):
    """The launcher can't be compiled on this machine. The text says why."""


def sources() -> list[Path]:
    """The C files, in a stable order."""
    return sorted(HERE.glob("*.c"))


def is_fresh(binary: Path) -> bool:
    """Whether the binary is newer than all its sources."""
    if not binary.exists():
        return False
    built_at = binary.stat().st_mtime
    return all(p.stat().st_mtime <= built_at for p in (*sources(), *HERE.glob("*.h"), Path(__file__)))


def build(target_dir: Path | None = None) -> Path:
    """Compile the launcher into `target_dir` (None: this folder's `bin`), unless it is fresh. Returns its path.

    The first build on a machine takes up to a minute, since zig builds its libc once.

    Raises:
        LauncherNotBuilt: no `ziglang`, or a machine other than x86-64 and ARM64.
        subprocess.CalledProcessError: the compiler failed, and its output is on stderr.
    """
    folder = target_dir if target_dir is not None else HERE / "bin"
    binary = folder / NAME
    if is_fresh(binary):
        return binary
    machine = _MACHINES.get(platform.machine().lower())
    if machine is None:
        raise LauncherNotBuilt(f"Headway has no launcher for machines of type {platform.machine()}")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headway-launcher-", dir=folder) as temporary:
        made = Path(temporary) / NAME
        command = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-musl", *_FLAGS]
        command += ["-o", str(made), *(str(path) for path in sources())]
        done = subprocess.run(command, env=_environment(), stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            if not _has_ziglang():
                raise LauncherNotBuilt("the launcher needs PyPI's ziglang to be compiled: pip install ziglang")
            raise subprocess.CalledProcessError(done.returncode, command)
        made.chmod(0o755)
        # In one step, so a Worker that copies it meanwhile gets the old one or the new one.
        os.replace(made, binary)
    return binary


def _has_ziglang() -> bool:
    check = [sys.executable, "-c", "import ziglang"]
    return subprocess.run(check, capture_output=True, check=False).returncode == 0


def _environment() -> dict[str, str]:
    """zig's cache is beside the project. If that can't be written, it is in the temporary folder."""
    environment = dict(os.environ)
    project_cache = HERE.parent.parent / ".cache" / "zig"
    cache = project_cache if os.access(HERE.parent.parent, os.W_OK) else Path(tempfile.gettempdir()) / "headway-zig"
    for variable in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        environment.setdefault(variable, str(cache))
    return environment


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
