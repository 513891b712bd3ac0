"""Which owner a task sees instead of which. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

_IDS = 2**32 - 1  # the last one means "none" to the kernel


class Extent(NamedTuple):
    """``size`` ids from ``disk`` on are shown as those from ``shown`` on."""

    disk: int
    shown: int
    size: int


@dataclass(frozen=True, slots=True)
class IdMaps:
    """How the owners and groups of files are shown. An id in no extent is shown as nobody's."""

    uids: tuple[Extent, ...]
    gids: tuple[Extent, ...]

    @property
    def changes_nothing(self) -> bool:
        return self.uids == _ALL == self.gids


_ALL = (Extent(0, 0, _IDS),)


def image_maps(owner: tuple[int, int], task: tuple[int, int]) -> IdMaps:
    """For an image's files: the owner of its ``/root`` becomes the task.

    Files of other uids are nobody's, so what is private to them stays closed. Groups only change places: a file of
    the owner and of any group must be the task's, and nobody gets into a group by it.
    """
    return IdMaps(_ALL if owner[0] == task[0] else (Extent(owner[0], task[0], 1),), _swapped(owner[1], task[1]))


def share_maps(owner: tuple[int, int], task: tuple[int, int]) -> IdMaps:
    """For a folder that others use too: the owner becomes the task, and nothing else can be made there."""
    return IdMaps((Extent(owner[0], task[0], 1),), (Extent(owner[1], task[1], 1),))


def render(extents: tuple[Extent, ...]) -> str:
    """As ``/proc/PID/uid_map`` and ``gid_map`` take them."""
    return "".join(f"{one.disk} {one.shown} {one.size}\n" for one in extents)


def _swapped(one: int, other: int) -> tuple[Extent, ...]:
    if one == other:
        return _ALL
    low, high = sorted((one, other))
    between = (Extent(0, 0, low), Extent(low + 1, low + 1, high - low - 1), Extent(high + 1, high + 1, _IDS - high - 1))
    return (Extent(low, high, 1), Extent(high, low, 1), *(extent for extent in between if extent.size))
