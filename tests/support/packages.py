"""Installs tiny packages with entry points, where pip would have put them, for this process and those it starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


class Site:
    """A folder of installed packages."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        folder.mkdir()
        monkeypatch.syspath_prepend(str(folder))
        paths = filter(None, [str(folder), os.environ.get("PYTHONPATH", "")])
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))

    def install(self, package: str, group: str, entry_point: str, *, module: str = "", code: str = "") -> None:
        """A package of version 1.0 with one entry point, and one module if any."""
        info = self.folder / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{entry_point}\n")
        if module:
            (self.folder / f"{module}.py").write_text(code)
            self._monkeypatch.delitem(sys.modules, module, raising=False)
