"""Makes and removes the homes of attempts."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from headway.ids import AttemptId
from headway.logs import get_logger

from ..box import open_beneath
from ..model import attempt_of_folder
from .id_maps import image_maps, share_maps
from .image_tree import Found, FoundKind, ImageTooLarge, ImageTree
from .model import HomeImpossible, HomeOrder, TaskHome
from .mounting import OverlayPlaces, mount_home, mount_share
from .own_files import OwnFiles, copy_file, own_files
from .places import (
    HOME,
    MadeFolder,
    Region,
    folders_to_make,
    home_of,
    parents_first,
    region_at,
    regions_of,
    tmp_in_home,
    volumes_of,
)
from .probe import PROBE, Probe
from .removal import clear
from .user_namespaces import UserNamespaces

log = get_logger(__name__)
T = TypeVar("T")

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPAQUE = "trusted.overlay.opaque"
_MOST_IMAGES = 256


class TaskHomes:
    """Homes in ``folder/<attempt.folder>``. All methods block, and may be called from several threads.

    ``user_namespace`` is the command of a child: the launcher with ``user-namespace``. It enters a user namespace of
    its own, prints a line and waits for the end of its input.
    """

    def __init__(self, folder: Path, *, user_namespace: Sequence[str]) -> None:
        # As the kernel names mount points.
        self._folder = Path(os.path.realpath(folder))
        self._namespaces = UserNamespaces(user_namespace)
        # One home after the other: an image with many layers takes a descriptor for each.
        self._mounting = threading.Lock()
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._finding = threading.Lock()
        # By what decides them, such as the image's layers, which never change: its next start doesn't search again.
        self._own: dict[Hashable, OwnFiles] = {}
        self._too_large: dict[Hashable, ImageTooLarge] = {}

    def probe(self, engine_root: Path | None = None, store: Path | None = None) -> str:
        """Why no home can be made here, in one sentence. Empty: it works, tried with a real mount.

        Args:
            engine_root: the root folder as the container engine sees it, such as ``/proc/42/root``.
            store: where the engine keeps the layers of images.
        """
        with self._lock(PROBE):
            return Probe(self._folder, self._make, self._namespaces.of).why_not(engine_root, store)

    def prepare(self, attempt: AttemptId, order: HomeOrder) -> TaskHome:
        """Make a home anew. Whatever this attempt had before is removed first, and after a failure all is.

        Raises:
            OSError: for example a full disk.
            HomeImpossible: it never works for this image or machine.
        """
        top = self._folder / attempt.folder
        with self._lock(top.name):
            clear(top)
            try:
                return self._make(top, order)
            except BaseException as error:
                if isinstance(error, ImageTooLarge):
                    _remember(self._too_large, _looked_for(order), error)
                with contextlib.suppress(OSError):
                    clear(top)
                raise

    def written(self, attempt: AttemptId) -> Path | None:
        """The folder in which all lies that the task writes in its home. None: it has no home."""
        folder = self._folder / attempt.folder / "written"
        return folder if folder.is_dir() else None

    def remove(self, attempt: AttemptId) -> None:
        """Unmount and remove the home of an attempt, if there is one. Safe twice.

        Raises:
            OSError: something is left, for example because something else is mounted inside.
        """
        top = self._folder / attempt.folder
        with self._lock(top.name):
            clear(top)

    def sweep(self, keep: Collection[AttemptId]) -> int:
        """Remove every home but those of ``keep``, which is asked about each at its turn.

        Returns how many are gone. What can't be removed is logged.
        """
        gone = 0
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return 0
        for name in names:
            try:
                with self._lock(PROBE if name.startswith(PROBE) else name):
                    # Only now: one of that name may have been begun meanwhile.
                    if attempt_of_folder(name) in keep:
                        continue
                    clear(self._folder / name)
            except OSError as error:
                log.warning("homes.left", folder=str(self._folder / name), error=str(error))
            else:
                gone += 1
        return gone

    def _lock(self, name: str) -> threading.Lock:
        with self._finding:
            return self._locks.setdefault(name, threading.Lock())

    def _make(self, top: Path, order: HomeOrder) -> TaskHome:
        if (known := self._too_large.get(_looked_for(order))) is not None:
            raise HomeImpossible(known.message)
        tree = ImageTree(order.layers)
        tree.check()
        home = home_of(tree)
        tmp = tmp_in_home(tree, home, order)
        if tmp:
            order = replace(order, mountpoints=(*order.mountpoints, tmp))
        volumes = volumes_of(tree, home, order)
        own = self._own_files(tree, home, order)
        regions = regions_of(tree, home, own.folders, is_images_user=order.is_images_user)
        top.mkdir(mode=0o700, parents=True)
        for name in ("root", "own", "work", "written", "shares"):
            (top / name).mkdir(mode=0o700)
        binds: dict[str, Path] = {}
        for region in regions:
            inside = [path for at, path in (region_at(regions, one) for one in volumes.home.values()) if at is region]
            files = own.files if region is regions[0] else ()
            binds[region.target] = self._mount_region(top, tree, region, order, inside, files)
        # Not under the lock: the shared mount may hang, and other homes are to be made meanwhile.
        shares, notes = self._mount_shares(top, order)
        binds.update(shares)
        if own.left:
            notes.append("The image may have more files of its own user below /root than are handed to the task.")
        for volume, path in volumes.home.items():
            region, inner = region_at(regions, path)
            _bind(binds, notes, volume, binds[region.target], inner)
        for volume, (share, path) in volumes.shares.items():
            if share in order.writable:
                with contextlib.suppress(OSError):  # then it isn't there, and is told
                    _make_below(order.shares[share], path)
            _bind(binds, notes, volume, shares[share], path)
        for number, volume in enumerate((*volumes.tmp, tmp) if tmp else volumes.tmp):
            binds[volume] = top / "written" / f"tmp{number}"
            binds[volume].mkdir()
            binds[volume].chmod(0o1777)
        return TaskHome(parents_first(binds), top / "written", tuple(notes))

    def _own_files(self, tree: ImageTree, home: Found, order: HomeOrder) -> OwnFiles:
        if not order.is_images_user or home.kind is not FoundKind.FOLDER:
            return OwnFiles()
        platforms = tuple(tree.look(place).path for place in (*order.shares, *order.mountpoints))
        asked = (order.layers, order.uid, platforms)
        known = self._own.get(asked)
        if known is None:
            known = own_files(tree, home, tree.facts(home).st_uid, order.uid, platforms)
            _remember(self._own, asked, known)
        return known

    def _mount_region(
        self, top: Path, tree: ImageTree, region: Region, order: HomeOrder, volumes: list[str], files: Sequence[Found]
    ) -> Path:
        mounted = top / "root" if region.target == HOME else top / "own" / region.name
        places = OverlayPlaces(top, mounted, top / "written" / region.name, top / "work" / region.name)
        mounted.mkdir(exist_ok=True)
        places.work.mkdir()
        _make_folders(places.upper, region.mode, order, folders_to_make(tree, region, order, volumes, files))
        for found in files:
            copy_file(found, places.upper / found.path.removeprefix(f"{region.found.path}/"), order.uid)
        with self._mounting:
            mount_home(region.found, image_maps(region.owner, (order.uid, order.gid)), self._namespaces.of, places)
        return mounted

    def _mount_shares(self, top: Path, order: HomeOrder) -> tuple[dict[str, Path], list[str]]:
        """The folder that stands for each share, and a note for each that can't be shown as the task's."""
        folders, notes = dict(order.shares), []
        if order.share_uid is None or order.share_gid is None:
            return folders, []
        owner, task = (order.share_uid, order.share_gid), (order.uid, order.gid)
        for number, (target, folder) in enumerate(order.shares.items() if owner != task else ()):
            place = top / "shares" / str(number)
            place.mkdir(mode=0o700)
            try:
                mount_share(folder, share_maps(owner, task), self._namespaces.of, place)
            except OSError as error:
                notes.append(f"{target} is shown with the owners that it has on disk ({error.strerror}).")
            else:
                folders[target] = place
        return folders, notes


def _looked_for(order: HomeOrder) -> Hashable:
    return order.layers, order.volumes, tuple(order.shares), order.mountpoints


def _remember(known: dict[Hashable, T], key: Hashable, value: T) -> None:
    if len(known) >= _MOST_IMAGES:
        known.clear()
    known[key] = value


def _make_folders(upper: Path, mode: int, order: HomeOrder, folders: Iterable[MadeFolder]) -> None:
    """The folder for what is written, with what must be in it from the beginning."""
    upper.mkdir()
    os.chown(upper, order.uid, order.gid)
    upper.chmod(mode)
    for one in folders:
        made = upper / one.path  # all above is of this function's making, so there is no link
        made.mkdir()
        os.chown(made, one.uid, one.gid)
        made.chmod(one.mode)
        if one.opaque:
            os.setxattr(made, _OPAQUE, b"y")


def _make_below(share: Path, path: str) -> None:
    """A volume's folder in a share, which belongs to whom the share does. No link is followed. Raises OSError."""
    facts = share.stat()
    folder = os.open(share, _FOLDER)
    try:
        for part in path.split("/"):
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=folder)
                os.chown(part, facts.st_uid, facts.st_gid, dir_fd=folder, follow_symlinks=False)
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
    finally:
        os.close(folder)


def _bind(binds: dict[str, Path], notes: list[str], volume: str, above: Path, path: str) -> None:
    """Let a folder that is there stand for a volume. No link is followed, which could lead out of the home."""
    try:
        folder = os.open(above, _FOLDER)
        try:
            os.close(open_beneath(folder, path, _FOLDER))
        finally:
            os.close(folder)
    except OSError as error:
        notes.append(f"The image's volume {volume} is kept by the container engine ({error.strerror}).")
    else:
        binds[volume] = above / path
