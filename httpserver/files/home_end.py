"""What becomes of the personal space of an account that is removed: kept, handed over, or deleted. Blocking.

Its account is disabled. A task that was declared lost may still work in it, so no link is followed on the way.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from headway.errors import Conflict
from headway.mount import Layout, ensure_home

from ..auth.model import Account
from ..filesystem.removal import remove_account_tree
from ..filesystem.system_calls import open_beneath, rename_no_replace

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def delete(layout: Layout, account: Account) -> bool:
    """Removes it with all that is in it; False: there was none.

    Raises:
        OSError: a part can't be removed.
    """
    with _homes(layout) as homes:
        name = layout.home(account.name).name
        there = _is_there(homes, name)
        if there:
            remove_account_tree(homes, name)
        return there


def hand_over(layout: Layout, account: Account, to: Account) -> str:
    """Moves it into the space of ``to``, as a folder of that account; the folder's name. Empty: there was none.

    Files change their owner first, where nobody reaches them yet. A try that broke off is gone on with by the next one.

    Raises:
        Conflict: the folder is there already.
        OSError: the file system does not let it.
    """
    name = f"from-{account.name}"
    ensure_home(layout, to.name, to.uid, to.gid)
    with _homes(layout) as homes:
        own = layout.home(account.name).name
        if not _is_there(homes, own):
            return ""
        with _opened(homes, layout.home(to.name).name) as target:
            if _is_there(target, name):
                raise Conflict(f"`{to.name}` has a `{name}` already: it must be renamed first.")
            if os.geteuid() == 0:
                _change_owner(homes, own, account, to)
            rename_no_replace(homes, own, target, name)
    return name


def _change_owner(homes: int, top: str, before: Account, after: Account) -> None:
    """What belongs to ``before`` belongs to ``after`` from now on. The top comes last, so that it shuts others out."""
    todo = [top]
    seen: list[str] = []
    while todo:
        path = todo.pop()
        seen.append(path)
        with _opened(homes, path) as here, os.scandir(here) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    todo.append(f"{path}/{entry.name}")
                else:
                    _own(here, entry.name, found, before, after)
    for path in reversed(seen):
        parent, _, last = path.rpartition("/")
        with _opened(homes, parent) as holder:
            _own(holder, last, os.stat(last, dir_fd=holder, follow_symlinks=False), before, after)


def _own(folder: int, name: str, found: os.stat_result, before: Account, after: Account) -> None:
    uid = after.uid if found.st_uid == before.uid else -1
    gid = after.gid if found.st_gid == before.gid else -1
    # What others own stays theirs: published files belong to Headway, whoever's space shares their bytes.
    if uid != -1 or (gid != -1 and found.st_uid == after.uid):
        os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _homes(layout: Layout) -> Iterator[int]:
    descriptor = os.open(layout.root / "homes", _FOLDER | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(folder: int, path: str) -> Iterator[int]:
    descriptor = open_beneath(folder, path or ".", _FOLDER, links=False)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
