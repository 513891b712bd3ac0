"""Which versions of Headway talk to each other: the same one, and those next to it.

Each call says the caller's version, and the called service looks at it. So one check serves both directions: whoever is
called refuses, be it the older or the newer one. A caller that says nothing is let in: it is a tool of an admin.
"""

from __future__ import annotations

import re

from ..errors import Unavailable
from ..plugins import own_version

VERSION_KEY = "x-headway-version"
_NUMBERS = re.compile(r"(\d{1,6})\.(\d{1,6})(?:[.\-+a-z].{0,60})?")


MINE = own_version(otherwise="")


class VersionsApart(Unavailable):
    """Two services are of versions too far apart. Callers wait, as for one that is away: an upgrade ends it."""

    slug = "versions-apart"
    title = "Two services are of versions too far apart"


def versions_talk(mine: str, theirs: str) -> bool:
    """Whether services of these two versions talk: same major number, minor numbers at most one apart.

    What is no version, such as that of a bare checkout, talks to all.
    """
    one, other = _NUMBERS.fullmatch(mine), _NUMBERS.fullmatch(theirs)
    if one is None or other is None:
        return True
    return one[1] == other[1] and abs(int(one[2]) - int(other[2])) <= 1


def apart(service: str, mine: str, theirs: str) -> str:
    """The sentence for a caller of the version ``theirs`` that ``service`` refuses."""
    return (
        f"{service} is Headway {mine}, and it was called by Headway {theirs[:64]}: only versions next to each other "
        "talk. Upgrade the older one, by one minor version at a time."
    )
