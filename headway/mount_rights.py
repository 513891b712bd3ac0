"""Whether the shared mount lets this service do what homes, logs and markets need: one look, by really doing it.

    rights = look_at_rights(layout.root)
    if rights.sentence: tell it; if rights.blocks_work: no new account could work

A server that squashes root, or a file system without owners, is found here and told to an admin. Else users find it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Of nobody: what is made for it is removed at once.
_TRIED_UID = 20_000


@dataclass(frozen=True, slots=True)
class MountRights:
    """What a look found. ``sentence``: what the mount refuses and how an admin mends it; empty: nothing.

    ``blocks_work``: no account could work, since none has a home that is its own. ``gives_no_homes``: those that an
    admin made can be used, and ``owners`` has the uid and gid of each.
    """

    sentence: str = ""
    blocks_work: bool = False
    gives_no_homes: bool = False
    owners: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def refuses(self, home: Path, account: str, uid: int, gid: int) -> str:
        """Why the account with this home can't work, though others may; empty: it can."""
        if not self.gives_no_homes or self.owners.get(account) == (uid, gid):
            return ""
        return (
            f"{account} has no personal space that is its own. {self.sentence} Or an admin makes it on the server: "
            f"`install -d -m 700 -o {uid} -g {gid} {home}`."
        )


def squashed_uid(made: Path) -> int | None:
    """The uid that has what this process has just made; None: its own, as it should be, or this is not root."""
    uid = made.lstat().st_uid
    return uid if os.geteuid() == 0 and uid != 0 else None


def remedy(root: Path, uid: int | None) -> str:
    """What an admin does where root may not change owners. ``uid``: what root is made; None: it stays root."""
    if uid is None:
        return f"Use a file system for {root} that keeps owners, and let root of this machine change them."
    return (
        f"The server makes uid 0 of this machine uid {uid} (root_squash): export {root} to this machine without that, "
        "in NFS with `no_root_squash`, in GlusterFS with `server.root-squash off`."
    )


def look_at_rights(root: Path, accounts: Collection[str] | None = None) -> MountRights:
    """Makes, gives away, links, locks and renames a file of its own, and removes it. Blocking.

    Without root there is nothing to give away: all homes are this service's own. ``accounts``: whose homes are looked
    at; None: of all that are there, as far as they can be listed.

    Raises:
        OSError: the mount is not there, full or read-only, as ``headway.mount.mount_state`` says better.
    """
    folder = root / f".headway-rights-{os.uname().nodename}-{os.getpid()}-{threading.get_native_id()}"
    folder.mkdir(mode=0o700)
    try:
        return _look(root, folder, accounts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _look(root: Path, folder: Path, accounts: Collection[str] | None) -> MountRights:
    file = folder / "file"
    file.write_bytes(b"headway")
    squashed = squashed_uid(file)
    given = _refused(lambda: _give(file)) if os.geteuid() == 0 else ""
    tries: tuple[tuple[str, str, Callable[[], object]], ...] = (
        ("link a file", "code and datasets can't share their bytes", lambda: os.link(file, folder / "linked")),
        ("lock a file", "the image market can't be kept in order", lambda: _lock(file)),
        ("rename a file", "logs and uploads can't be put in their place", lambda: file.rename(folder / "renamed")),
    )
    refused = [f"can't {what} ({why}), so {need}" for what, need, work in tries if (why := _refused(work))]
    if given:
        refused.insert(0, f"can't give a file to uid {_TRIED_UID} ({given}), so accounts get no personal spaces")
    if not refused:
        return MountRights()
    sentence = f"On {root} this service (uid {os.geteuid()}) {'; it '.join(refused)}."
    if not given:
        return MountRights(f"{sentence} Use a file system that can do that.")
    homes = root / "homes"
    try:
        owners = _owners(homes, os.listdir(homes) if accounts is None else accounts)
        ready = any(uid not in (0, squashed) for uid, _ in owners.values())
    except PermissionError:  # a squashed root may not even list them: an admin may have made some
        owners, ready = {}, True
    return MountRights(
        f"{sentence} {remedy(root, squashed)}",
        blocks_work=not ready,
        owners=owners,
        gives_no_homes=True,
    )


def _give(path: Path) -> None:
    os.chown(path, _TRIED_UID, _TRIED_UID)
    if path.lstat().st_uid != _TRIED_UID:  # some file systems take the call and do nothing
        raise OSError(0, "it keeps its owner")


def _lock(path: Path) -> None:
    with path.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _refused(work: Callable[[], object]) -> str:
    try:
        work()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _owners(homes: Path, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    found = {}
    for name in names:
        with contextlib.suppress(OSError):
            info = (homes / name).lstat()
            found[name] = (info.st_uid, info.st_gid)
    return found
