"""What goes where in a home: which folders are made before it is mounted, and which volumes it stands for."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from .image_tree import Found, FoundKind, ImageTree
from .model import HomeImpossible, HomeOrder

HOME = "/root"
_TMP = "/tmp"
# An engine mounts its own there, and refuses other mounts.
_ENGINES = ("proc", "dev", "sys")
_NOBODY = 65_534
_USABLE = 0o700
_PASSED_BY_ALL = 0o001
_PASSED = 0o011


@dataclass(frozen=True, slots=True)
class MadeFolder:
    """A folder to be made in the written part of a home. ``opaque`` hides what the image has there."""

    path: str
    mode: int
    uid: int
    gid: int
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a home that is one mount. ``target`` is its place in the container, ``name`` that of its folders.

    What belongs to ``owner``, a uid and a gid, is shown as the task's. ``mode`` is that of the top folder.
    """

    target: str
    name: str
    found: Found
    owner: tuple[int, int]
    mode: int


@dataclass(frozen=True, slots=True)
class Volumes:
    """What stands for the image's volumes, by the places that the image names. Other volumes are the engine's.

    ``home`` has paths within the home, ``shares`` a share and a path in it. ``tmp`` gets a new folder each.
    """

    home: Mapping[str, str]
    shares: Mapping[str, tuple[str, str]]
    tmp: tuple[str, ...]


def home_of(tree: ImageTree) -> Found:
    """The image's ``/root``. Raises HomeImpossible: no folder can be mounted there."""
    try:
        found = tree.look(HOME)
    except OSError as error:
        raise HomeImpossible(f"The image's /root can't be read: {error.strerror}.") from error
    if not found.path or any(found.below(name) for name in _ENGINES):
        raise HomeImpossible(f"The image's /root is a link to /{found.path}, where no home can be mounted.")
    if found.kind not in (FoundKind.FOLDER, FoundKind.MISSING):
        what = "no folder" if found.path == HOME[1:] else f"a link to /{found.path}, which is no folder"
        raise HomeImpossible(f"The image's /root is {what}.")
    return found


def tmp_in_home(tree: ImageTree, home: Found, order: HomeOrder) -> str:
    """Where in the home the image's ``/tmp`` is, by way of links. Empty: it is elsewhere. Raises OSError.

    The launcher opens no folder across a mount, so it would keep the image's mode.
    """
    tmp = tree.look(_TMP)
    if tmp.path == home.path or not tmp.below(home.path) or tmp.kind is FoundKind.OTHER:
        return ""
    place = f"{HOME}{tmp.path.removeprefix(home.path)}"
    return "" if _lies_in(place, (*order.shares, *order.mountpoints)) else place


def volumes_of(tree: ImageTree, home: Found, order: HomeOrder) -> Volumes:
    """Which of the image's volumes are in places that the task was promised. Raises OSError."""
    in_home: dict[str, str] = {}
    in_shares: dict[str, tuple[str, str]] = {}
    in_tmp: list[str] = []
    tmp = tree.look(_TMP)
    for volume in order.volumes:
        if volume == HOME or volume in order.shares or _lies_in(volume, order.mountpoints):
            continue  # it has a mount already, or lies in what the engine mounts
        share = next((one for one in order.shares if volume.startswith(f"{one}/")), None)
        if share is not None:
            in_shares[volume] = (share, volume.removeprefix(f"{share}/"))
            continue
        found = tree.look(volume)
        if found.kind is FoundKind.OTHER:
            continue
        if found.below(home.path):
            in_home[volume] = found.path.removeprefix(home.path).strip("/")
        elif tmp.path and tmp.kind is not FoundKind.OTHER and found.below(tmp.path):
            in_tmp.append(volume)
    return Volumes(in_home, in_shares, tuple(in_tmp))


def regions_of(tree: ImageTree, home: Found, own: Iterable[Found], *, is_images_user: bool) -> list[Region]:
    """The home, and the folders in it that belong to the image's own user. Raises OSError.

    A program of the image's user may go on as another (gosu, su). So such a home has the image's mode, and lets all
    users of the container pass to code and datasets. A home of an account is closed.
    """
    regions = [Region(HOME, "home", home, (0, 0), _USABLE | _PASSED if is_images_user else _USABLE)]
    if home.kind is FoundKind.FOLDER:
        facts = tree.facts(home)
        regions[0] = replace(regions[0], owner=(facts.st_uid, facts.st_gid))
        if is_images_user:
            regions[0] = replace(regions[0], mode=regions[0].mode | stat.S_IMODE(facts.st_mode) & 0o1777)
    for number, found in enumerate(own):
        facts = tree.facts(found)
        target = f"{HOME}{found.path.removeprefix(home.path)}"
        owner, mode = (facts.st_uid, facts.st_gid), stat.S_IMODE(facts.st_mode) | _USABLE
        regions.append(Region(target, f"own{number}", found, owner, mode))
    return regions


def region_at(regions: Iterable[Region], path: str) -> tuple[Region, str]:
    """In which mount a path of the home is, and the path there. Pure."""
    whole = f"{HOME}/{path}".rstrip("/")
    inmost = max((one for one in regions if f"{whole}/".startswith(f"{one.target}/")), key=lambda one: len(one.target))
    return inmost, whole.removeprefix(inmost.target).strip("/")


def _lies_in(path: str, places: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{place}/") for place in places)


def parents_first(binds: Mapping[str, Path]) -> dict[str, Path]:
    """The same in the order in which they can be mounted. Pure."""
    return dict(sorted(binds.items(), key=lambda bind: (bind[0].count("/"), bind[0])))


def folders_to_make(
    tree: ImageTree, region: Region, order: HomeOrder, volumes: Iterable[str], copied: Iterable[Found] = ()
) -> list[MadeFolder]:
    """What has to be in the written part before a region is mounted, parents first. Raises OSError.

    Through the mount it might not work: the kernel makes nothing in a folder whose owner it can't show.

    Args:
        volumes: the paths of volumes within the region.
        copied: files of the image that are copied there, which takes the folders above them.
    """
    made: dict[str, MadeFolder] = {}
    top = region.found.path
    for place in (*order.shares, *order.mountpoints):
        found = tree.look(place)
        if found.below(top) and found.path != top:
            _lay(made, tree, region, order, found.path.removeprefix(f"{top}/"), promised=True)
    for path in volumes:
        if path:
            _lay(made, tree, region, order, path, promised=False)
    for found in copied:
        above = found.path.removeprefix(f"{top}/").rpartition("/")[0]
        if above:
            _lay(made, tree, region, order, above, promised=False, whole=True)
    return sorted(made.values(), key=lambda folder: folder.path)


def _lay(
    made: dict[str, MadeFolder],
    tree: ImageTree,
    region: Region,
    order: HomeOrder,
    path: str,
    *,
    promised: bool,
    whole: bool = False,
) -> None:
    """Add what is needed for one path in a region, all of it if it has to be ``whole``.

    ``promised``: the platform, not the image, has something there.
    """
    parts = path.split("/")
    chain: list[MadeFolder] = []
    needed = len(parts) if whole else 0  # so many of the chain
    is_new = False  # whether a folder of ours stands above, in which nothing of the image is seen
    for at in range(1, len(parts) + 1):
        inside, last = "/".join(parts[:at]), at == len(parts)
        if inside in made and made[inside].opaque:
            chain.append(made[inside])
            is_new = True
            continue
        found = Found("", FoundKind.MISSING) if is_new else tree.look(f"{region.found.path}/{inside}")
        own = MadeFolder(inside, 0o755, order.uid, order.gid)
        if found.kind is not FoundKind.FOLDER:
            chain.append(own)
            needed, is_new = max(needed, at), True
            continue
        facts = tree.facts(found)
        mode, foreign = stat.S_IMODE(facts.st_mode), facts.st_uid != region.owner[0]
        if promised and foreign and not last:
            # What the image has there is private to another uid, so the task gets a folder without it.
            chain.append(MadeFolder(inside, 0o755, order.uid, order.gid, opaque=True))
            needed, is_new = max(needed, at), True
        elif promised and not last and mode & _USABLE != _USABLE:
            chain.append(MadeFolder(inside, mode | _USABLE, order.uid, order.gid))
            needed = max(needed, at)
        elif foreign and not last and not mode & _PASSED_BY_ALL:
            # Not even the engine gets through it: the kernel lets root pass only where it can show the owner.
            chain.append(MadeFolder(inside, mode, _NOBODY, _NOBODY, opaque=True))
            needed, is_new = max(needed, at), True
        elif foreign:
            chain.append(MadeFolder(inside, mode, _NOBODY, _NOBODY))
        else:
            chain.append(MadeFolder(inside, mode, order.uid, order.gid))
    for folder in chain[:needed]:
        made.setdefault(folder.path, folder)
