"""What is installed: Headway's own version, and parts that packages add, each a name in a group of entry points.

    plugin = plugins.find("headway.runtimes", "docker")
    plugin.package                                         # "headway 0.1.0"
    plugin.entry.load()

The kernel imports no service: it knows these parts by their names alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version

RUNTIMES = "headway.runtimes"


def own_version(otherwise: str = "unknown") -> str:
    """Headway's version here; ``otherwise`` in a bare checkout."""
    try:
        return version("headway")
    except PackageNotFoundError:
        return otherwise


class NoSuchPlugin(ValueError):
    """No package gives the name, or two do. The sentence reads on after the setting: "must be …"."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One name in a group, and the package that gives it."""

    name: str
    entry: EntryPoint

    @property
    def package(self) -> str:
        """The package's name and version, such as ``toy-runtime 1.0``."""
        return _package(self.entry)


def names(group: str) -> list[str]:
    """All names in the group that installed packages give, sorted. Nothing is imported."""
    return sorted({entry.name for entry in entry_points(group=group)})


def find(group: str, name: str) -> Plugin:
    """The one part of this name. Nothing is imported.

    Raises:
        NoSuchPlugin: no package gives the name, or more than one does.
    """
    found = tuple(entry_points(group=group, name=name))
    if not found:
        raise NoSuchPlugin(_none(group, name))
    packages = sorted({_package(entry) for entry in found})
    if len(found) > 1:
        raise NoSuchPlugin(
            f"is {name!r}, a name that {' and '.join(packages)} both give: uninstall one of these packages"
            if len(packages) > 1
            else f"is {name!r}, a name that {packages[0]} gives twice: its entry points must differ"
        )
    return Plugin(name, found[0])


def _none(group: str, name: str) -> str:
    known = names(group)
    if not known:
        return f"is {name!r}, but no installed package has entry points of the group {group}: install Headway again"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"must be {_one_of(known)}, and not {name!r}{hint}"


def _one_of(known: Sequence[str]) -> str:
    quoted = [repr(name) for name in known]
    return quoted[0] if len(quoted) == 1 else f"one of {', '.join(quoted[:-1])} or {quoted[-1]}"


def _package(entry: EntryPoint) -> str:
    # An entry point that was made by hand, as in tests, has no package.
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
