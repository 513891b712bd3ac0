"""Fresh virtual environments for wheels, without an index: what they need is linked from the tests' own environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from email.message import Message
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def names_in(wheel: Path) -> set[str]:
    """The files of a wheel, without those about the wheel itself."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def about(wheel: Path, file: str = "METADATA") -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(f".dist-info/{file}"))
        return Parser().parsestr(archive.read(name).decode())


def needed(wanted: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that these requirements ask for, with all that those ask for."""
    found: dict[str, Distribution] = {}
    queue = [(Requirement(line), frozenset({""})) for line in wanted]
    seen = set()
    while queue:
        requirement, extras = queue.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        name, asked = canonicalize_name(requirement.name), frozenset({"", *requirement.extras})
        if (name, asked) in seen:
            continue
        seen.add((name, asked))
        found[name] = distribution(name)
        queue += [(Requirement(line), asked) for line in found[name].requires or ()]
    return found


class Environment:
    """A virtual environment that holds nothing at first."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.bin = folder / "bin"
        (self.site,) = (folder / "lib").glob("python3*/site-packages")
        self._home = folder / "home"
        self._home.mkdir()

    def link(self, distributions: Iterable[Distribution]) -> None:
        """Makes them importable here."""
        for one in distributions:
            for top in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
                there = Path(str(one.locate_file(top)))
                if not (self.site / top).exists():
                    (self.site / top).symlink_to(there)

    def pip(self, *words: str | Path) -> None:
        """pip, without an index; ends with an error if it does."""
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.bin / "python", *words]
        done = subprocess.run(command, env=self._variables(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def install(self, *what: str | Path) -> None:
        self.pip("install", "--no-index", "--no-deps", "--no-compile", "--no-build-isolation", *what)

    def run(self, *command: str | Path, **variables: str) -> tuple[int, str, str]:
        """A program of the environment, in an empty home. Gives exit status, standard output and standard error."""
        done = subprocess.run(
            [self.bin / command[0], *command[1:]],
            env=self._variables() | variables,
            cwd=self._home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def _variables(self) -> dict[str, str]:
        # Nothing of the checkout or of the account may be found by chance.
        kept = {
            name: value for name, value in os.environ.items() if not re.match("PYTHON|HEADWAY_|XDG_|VIRTUAL_", name)
        }
        return kept | {"HOME": str(self._home), "COLUMNS": "200", "HEADWAY_SKIP_WEB": "1"}
