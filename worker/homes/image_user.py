"""Whom an image's USER means, by the tables in its layers. The launcher reads them alike (``find_user``)."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .image_tree import ImageTree
from .model import HomeImpossible

_TABLE_BYTES = 4 << 20
_MOST_GROUPS = 256
_ID_DIGITS = 10
_NO_ID = 2**32 - 1
# The engine mounts something of its own there, and the launcher reads no table across a mount.
_CLOSED = ("/proc", "/dev", "/sys", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")


@dataclass(frozen=True, slots=True)
class ImageUser:
    """The ids that a container's process gets."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def image_user(layers: Sequence[Path], user: str, volumes: Collection[str] = ()) -> ImageUser | None:
    """Whom ``user``, the image's USER, means. None: the image doesn't tell, and the launcher will say why. Blocks.

    Args:
        layers: the folders of the image's layers, top first.
        volumes: the paths that the image declares as volumes: the launcher reads no table there.
    """
    tree = ImageTree(layers, (*_CLOSED, *volumes))
    try:
        tree.check()
    except HomeImpossible:
        return None
    return find_user(os.fsencode(user), _table(tree, "etc/passwd"), _table(tree, "etc/group"))


def find_user(user: bytes, passwd: bytes, group: bytes) -> ImageUser | None:
    """Whom a USER means by these tables: names first, then numbers. None: they don't tell. Pure."""
    name, _, group_name = user.partition(b":")
    uid, gid = _number(name), 0
    if not name:
        uid = 0
    line = _by_name(passwd, name) if name else None
    if line is None and uid is not None:
        line = _by_id(passwd, uid)
    if line is not None:
        found_uid, found_gid = _id_in(line, 2), _id_in(line, 3)
        if found_uid is None or found_gid is None:
            return None
        uid, gid = found_uid, found_gid
    if uid is None:
        return None
    if group_name:
        of_group = _group_id(group, group_name)
        return None if of_group is None else ImageUser(uid, of_group)
    if line is None:
        return ImageUser(uid, gid)
    return ImageUser(uid, gid, tuple(_groups_of(line[0], group))[:_MOST_GROUPS])


def _group_id(table: bytes, name: bytes) -> int | None:
    line = _by_name(table, name)
    return _number(name) if line is None else _id_in(line, 2)


def _groups_of(name: bytes, table: bytes) -> Iterator[int]:
    for line in _lines(table):
        members = line[3].split(b",") if len(line) > 3 else []
        if members and not members[-1]:
            members.pop()
        number = _id_in(line, 2)
        if name in members and number is not None:
            yield number


def _table(tree: ImageTree, path: str) -> bytes:
    try:
        return tree.read(path, _TABLE_BYTES) or b""
    except OSError:
        return b""  # as for the launcher: a table that can't be read has no lines


def _lines(table: bytes) -> Iterator[list[bytes]]:
    """The fields of each line. To a C program a table ends at a zero byte."""
    for line in table.partition(b"\0")[0].split(b"\n"):
        yield line.split(b":")


def _by_name(table: bytes, name: bytes) -> list[bytes] | None:
    return next((line for line in _lines(table) if line[0] == name), None)


def _by_id(table: bytes, number: int) -> list[bytes] | None:
    return next((line for line in _lines(table) if _id_in(line, 2) == number), None)


def _id_in(line: list[bytes], field: int) -> int | None:
    return _number(line[field]) if len(line) > field else None


def _number(text: bytes) -> int | None:
    if not text.isdigit() or len(text) > _ID_DIGITS:  # of bytes: 0 to 9 alone
        return None
    number = int(text)
    return number if number < _NO_ID else None
