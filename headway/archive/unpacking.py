"""What an engine would meet if it unpacked a layer: what each member needs to be there already.

Engines unpack a layer into an empty folder of its own (overlay2 of Docker Engine 20.10, the strictest, was tried).
So a link leads only to what came before it in the same layer. Nothing is unpacked here; names are kept as hashes. Past
a number of names this looks no further: an engine then says itself what it can't unpack.
"""

from __future__ import annotations

import posixpath
from enum import Enum

from .model import ArchiveRefused
from .tar import Member, MemberKind, shown

_MOST = 500_000  # names of a layer, about 150 bytes each
_MOST_LINKS = 200_000
_HOPS = 40
_COMPONENT_BYTES = 255
_LINK_BYTES = 4095
_MARK = ".wh."
_OPAQUE = ".wh..wh..opq"
_NOBODY = "Docker Engine can't unpack that; build the image anew"
_PATH_BYTES = 3900  # engines put the path of their own folder before it


class _Thing(Enum):
    """What is at a path."""

    FOLDER = "a folder"
    LINK = "a symbolic link"
    REMOVED = "removed"
    OTHER = "no folder"


class Unpacking:
    """One layer as it grows. Members are to be added in their order, by their plain paths inside the image."""

    def __init__(self, where: str) -> None:
        """``where``: the layer, as sentences begin with it."""
        self._where = where
        self._things: dict[int, _Thing] = {}  # by the hash of the path
        self._links: dict[str, str] = {}
        self._names: set[int] = set()  # of all members, marks too
        self._last_parent = self._last_real = ""
        self.real = ""  # where an engine puts the member that was added last, links of this layer followed

    def add(self, path: str, member: Member) -> None:
        """One member more; ``path`` "" is the image's root.

        Raises:
            ArchiveRefused: no engine could unpack it.
        """
        if len(path) + len(member.link) > (_COMPONENT_BYTES if path.isascii() else _COMPONENT_BYTES // 4):
            self._check_lengths(path, member)
        self.real = path
        if len(self._names) > _MOST or len(self._links) > _MOST_LINKS:
            return
        at = hash(path)
        if at in self._names:
            raise ArchiveRefused(f"{self._where} has two members named {shown(path or './')}: {_NOBODY}.")
        self._names.add(at)
        if not path:
            return
        parent, _, base = path.rpartition("/")
        if parent != self._last_parent:
            self._enter(parent, path)
            self._last_parent = parent
        self.real = posixpath.join(self._last_real, base)
        if base.startswith(_MARK):
            self._take_away(parent, base, path)
            return
        thing = _Thing.OTHER
        match member.kind:
            case MemberKind.DIR:
                thing = _Thing.FOLDER
            case MemberKind.SYMLINK:
                thing = _Thing.LINK
                self._links[path] = member.link
            case MemberKind.HARDLINK:
                self._check_hard_link(path, member)
        if self._last_real != parent:
            self._things[hash(posixpath.join(self._last_real, base))] = thing
        if thing is not _Thing.FOLDER and at in self._things:
            self._last_parent = self._last_real = ""  # a folder that was made on the way is none any more
        self._things[at] = thing

    def _enter(self, parent: str, path: str) -> None:
        """Folders that members did not name are made on the way."""
        way = parent
        made = []
        while way:
            thing = self._things.get(hash(way))
            if thing is _Thing.LINK and self._real(way) is None:
                raise ArchiveRefused(
                    f"{self._where} has {shown(path)} below {shown(way)}, a symbolic link that leads to no folder of "
                    f"the same layer: {_NOBODY}."
                )
            if thing in (_Thing.OTHER, _Thing.REMOVED):
                raise ArchiveRefused(
                    f"{self._where} has {shown(path)} below {shown(way)}, which is no folder in it: {_NOBODY}."
                )
            if thing is not None:
                break
            made.append(way)
            way = way.rpartition("/")[0]
        for way in made:
            self._things[hash(way)] = _Thing.FOLDER
        self._last_real = real = self._real(parent) or ""
        while real != parent and real:
            self._things.setdefault(hash(real), _Thing.FOLDER)
            real = real.rpartition("/")[0]

    def _take_away(self, parent: str, base: str, path: str) -> None:
        """A mark for what is removed of the layers below."""
        if base == _OPAQUE:
            return
        removed = base[len(_MARK) :]
        if removed in ("", ".", ".."):
            raise ArchiveRefused(
                f"{self._where} has the mark {shown(path)}, which removes nothing that has a name: {_NOBODY}."
            )
        gone = posixpath.join(parent, removed)
        if hash(gone) in self._things:
            raise ArchiveRefused(f"{self._where} holds {shown(gone)} and then removes it: {_NOBODY}.")
        self._things[hash(gone)] = _Thing.REMOVED

    def _check_hard_link(self, path: str, member: Member) -> None:
        target = posixpath.normpath("/" + member.link).lstrip("/")
        parent, _, base = target.rpartition("/")
        real = self._real(parent)
        there = None if real is None else self._things.get(hash(posixpath.join(real, base)))
        if target == path or there not in (_Thing.OTHER, _Thing.LINK):
            raise ArchiveRefused(
                f"{self._where} has a hard link, {shown(path)}, to {shown(member.link)}, which is no file that comes "
                f"before it in the same layer: {_NOBODY}."
            )

    def _real(self, path: str) -> str | None:
        """The folder that ``path`` means, links followed; None: a link leads to no folder of the layer."""
        if not self._links:
            return path
        parts: list[str | None] = [*reversed(path.split("/"))]
        at = ""
        hops = 0
        while parts:
            part = parts.pop()
            if part is None:
                # The end of a link's target.
                if at and self._things.get(hash(at)) is not _Thing.FOLDER:
                    return None
            elif part == "..":
                at = posixpath.dirname(at)
            elif part not in ("", "."):
                way = posixpath.join(at, part)
                target = self._links.get(way) if self._things.get(hash(way)) is _Thing.LINK else None
                if target is None:
                    at = way
                    continue
                hops += 1
                if hops > _HOPS:
                    return None
                parts += [None, *reversed(target.split("/"))]
                at = "" if target.startswith("/") else at
        return at

    def _check_lengths(self, path: str, member: Member) -> None:
        if len(path.encode("utf-8", "surrogateescape")) > _PATH_BYTES:
            raise ArchiveRefused(f"{self._where} has a name of more than {_PATH_BYTES} bytes: {shown(path)}.")
        for part in path.split("/"):
            if len(part.encode("utf-8", "surrogateescape")) > _COMPONENT_BYTES:
                raise ArchiveRefused(
                    f"{self._where} has a name of more than {_COMPONENT_BYTES} bytes, which no disk takes: "
                    f"{shown(part)}."
                )
        if len(member.link.encode("utf-8", "surrogateescape")) > _LINK_BYTES:
            raise ArchiveRefused(
                f"{self._where} has a link, {shown(path)}, whose target has more than {_LINK_BYTES} bytes."
            )
