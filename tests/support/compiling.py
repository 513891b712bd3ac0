"""Small C programs of the tests, compiled once and kept under .cache/."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parent.parent.parent
CACHE = _REPOSITORY / ".cache" / "tests"
# The launcher's build keeps its compiler's cache there too: the C library is built once for both.
ZIG_CACHE = _REPOSITORY / ".cache" / "zig"


def compiled(source: Path, name: str, *options: str) -> Path:
    """Compile ``source`` with PyPI's ziglang, which needs no compiler on the machine.

    Args:
        source: the C file.
        name: the result's file name.
        options: of the compiler, before the source.

    Returns:
        The result; made anew only when source or options have changed.
    """
    digest = hashlib.sha256("\0".join([*options, source.read_text()]).encode()).hexdigest()[:16]
    target = CACHE / digest / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        # Two test runs may compile at once: each makes its own file and the rename is atomic.
        made = target.with_suffix(f".{os.getpid()}")
        _run([sys.executable, "-m", "ziglang", "cc", *options, "-o", str(made), str(source)])
        made.rename(target)
    return target


def _run(command: Sequence[str]) -> None:
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(ZIG_CACHE), "ZIG_LOCAL_CACHE_DIR": str(ZIG_CACHE)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
