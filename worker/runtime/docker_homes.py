"""Makes a task's home before its container, and removes it after. ``worker.homes`` does the mounts.

A home may be in use by a container that an earlier life of this Worker has made. So one that lies on the disk is made
anew only where nobody can use it. What no attempt owns is swept once the engine has told which containers there are.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from docker import APIClient

from headway.archive import places
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.model.reasons import EndWord

from ..box import LaunchSpec
from ..container_paths import CODE_DIR, HOME, NFS_DIR
from ..homes import HomeImpossible, HomeOrder, TaskHome, TaskHomes, image_user
from ..ports import ContainerFiles, RuntimeRefused, StartOrder
from .docker_disk import EngineFolders

log = get_logger(__name__)

_MOST_IMAGES = 10_000
_UNIX = "unix://"


@dataclass(frozen=True, slots=True)
class PreparedHome:
    """What a container gets as its home. Without ``binds`` the launcher opens the image's own ``/root``.

    ``refusal``: the task can't be started here. ``in_use``: a container has it already, so no other is made.
    ``is_owners``: what the task writes in the personal space belongs to the account, whoever the task is.
    """

    binds: Mapping[str, Path] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusal: RuntimeRefused | None = None
    in_use: bool = False
    is_owners: bool = False

    def spec_for(self, spec: LaunchSpec) -> LaunchSpec:
        """The launcher's spec: it opens no ``/root`` that is the task's own, and proves that it is mounted."""
        if not self.binds:
            return spec
        home, count = self.binds[HOME], Counter(self.binds.values())
        # A volume that the image names by way of links may come before the home, which then shows the same folder.
        proven = (
            target
            for target, source in self.binds.items()
            if count[source] == 1
            and (source == Path(home, target.removeprefix(HOME).strip("/")) or source.parent == home.parent / "own")
        )
        return replace(spec, open_root=False, mounts=tuple(dict.fromkeys((*proven, *spec.mounts))))

    def fitting(self, spec: LaunchSpec, node: str) -> PreparedHome:
        """As the spec in the box says, which an earlier call may have written."""
        if spec.open_root:
            return replace(self, binds={}, is_owners=False)
        if self.binds or self.in_use or self.refusal is not None:
            return self
        text = f"{node} had made a home for the task, and can't make it again"
        return replace(self, refusal=RuntimeRefused(text, word=EndWord.START_FAILED, elsewhere=True))


@dataclass(frozen=True, slots=True)
class _Image:
    """``layers``: its folders, top first. ``volumes``: those that its config declares."""

    layers: tuple[Path, ...]
    volumes: tuple[str, ...]


class DockerHomes:
    """The homes of one Worker's attempts. ``prepare``, ``remove`` and ``sweep`` block; any thread may call them."""

    def __init__(self, homes: TaskHomes | None, url: str, node: str) -> None:
        # Nothing is promised where this Worker can't mount for its engine.
        self._homes = homes if os.geteuid() == 0 and url.startswith(_UNIX) else None
        self._url = url
        self._node = node
        self._lock = threading.Lock()
        self._images: dict[str, _Image] = {}
        self._made: dict[AttemptId, PreparedHome] = {}
        self._known: set[AttemptId] = set()  # of this life, from before they are made until they are removed
        self._going: set[AttemptId] = set()
        self._left: set[AttemptId] = set()  # their containers are gone, and their removal failed
        self._sweep_due = True
        self._asked = False  # since the engine came
        self._tried = False  # once at least
        self.problem = ""  # why it doesn't work on this node though it could, in one sentence

    # -- whether it works ---------------------------------------------------------------------------

    async def look(self, folders: EngineFolders) -> None:
        """Try it, unless that is done since the engine came."""
        homes = self._homes
        if self._asked or homes is None or not folders.found:
            return
        store = folders.found[0]
        self.problem = folders.cannot_show_layers or await asyncio.to_thread(lambda: self._probe(homes, store))
        self._asked = self._tried = True
        if self.problem:
            log.warning("homes.impossible", reason=self.problem)

    def forget(self) -> None:
        """The engine went away, and another may come. What was found counts until then."""
        self._asked = False
        self._sweep_due = True

    def _probe(self, homes: TaskHomes, store: Path) -> str:
        try:
            pid = engine_pid(self._url)
            if pid == 0:
                return "The container engine runs outside of the container in which this Worker runs."
            # A socket of systemd's names its process 1, which sees the mounts that services see.
            return homes.probe(Path(f"/proc/{pid}/root"), store)
        except OSError as error:
            return f"A mount of the kind that homes need failed: {error}."

    # -- one home -----------------------------------------------------------------------------------

    def prepare(self, api: APIClient, order: StartOrder, is_in_use: Callable[[], bool]) -> PreparedHome:
        """The home for this start. Safe twice.

        ``is_in_use``: whether a container of the attempt is there, or its program runs. Raises APIError.
        """
        attempt = order.attempt
        self._known.add(attempt)
        made = self._made.get(attempt)
        if made is not None:
            return made
        if self._homes is not None and self._homes.written(attempt) is not None and is_in_use():
            return PreparedHome(in_use=True)
        made = self._prepare(order, self._image(api, order.image.id))
        if made.binds:
            self._made[attempt] = made
        return made

    def _prepare(self, order: StartOrder, image: _Image) -> PreparedHome:
        if self._homes is None or not self._tried or self.problem:
            return self._without(image, self.problem)
        if not image.layers:
            return self._without(image, "The container engine does not say where the image's layers are.")
        asked = self._order(order, image)
        if asked is None:
            return self._without(image, "")
        try:
            home = self._homes.prepare(order.attempt, asked)
        except HomeImpossible as error:
            return self._without(image, error.message)
        except OSError as error:
            text = f"{self._node} could not make the task's home: {error.strerror or error}"
            return PreparedHome(refusal=RuntimeRefused(text, word=EndWord.START_FAILED, elsewhere=True))
        return PreparedHome(home.binds, home.notes, is_owners=_is_owners(home, asked))

    def _order(self, order: StartOrder, image: _Image) -> HomeOrder | None:
        """None: the image doesn't say who its user is. The launcher will say why."""
        shares: dict[str, Path] = {}
        if order.spec.drop_caps:
            uid, gid = map(int, order.spec.user.split(":"))
        else:
            user = image_user(image.layers, order.image.user, image.volumes)
            if user is None:
                return None
            uid, gid = user.uid, user.gid
            places_of = {NFS_DIR: order.home, CODE_DIR: order.code}
            shares = {place: folder for place, folder in places_of.items() if folder is not None}
        mine = {*order.spec.mounts}
        return HomeOrder(
            uid=uid,
            gid=gid,
            layers=image.layers,
            volumes=tuple(path for path in image.volumes if path not in mine),
            shares=shares,
            share_uid=order.account_uid,
            share_gid=order.account_gid,
            mountpoints=tuple(place for place in order.spec.mounts if place not in shares),
            is_images_user=not order.spec.drop_caps,
        )

    def _without(self, image: _Image, why: str) -> PreparedHome:
        """The launcher opens the image's own ``/root``, which a volume of the engine would hide."""
        if HOME in image.volumes:
            text = (
                f"The image declares a volume at {HOME}, and {self._node} can't give its tasks a home of their own. "
                "Build it without this VOLUME"
            )
            return PreparedHome(refusal=RuntimeRefused(text, word=EndWord.START_FAILED, elsewhere=True))
        if not why:
            return PreparedHome()
        return PreparedHome(notes=(f"What the image has in folders below {HOME} may be closed to the task. {why}",))

    def _image(self, api: APIClient, image: str) -> _Image:
        known = self._images.get(image)
        # An image that was removed and loaded anew has other folders.
        if known is not None and all(layer.is_dir() for layer in known.layers[:1]):
            return known
        found = api.inspect_image(image)  # type: ignore[no-untyped-call]
        volumes = (found.get("Config") or {}).get("Volumes") or {}
        facts = _Image(layers_of(found), tuple(dict.fromkeys(places.plain(path) for path in volumes)))
        if len(self._images) >= _MOST_IMAGES:
            self._images.clear()
        self._images[image] = facts
        return facts

    def files(self, attempt: AttemptId, files: ContainerFiles) -> ContainerFiles:
        """With what the task has written in its home. Blocks."""
        written = self._homes.written(attempt) if self._homes is not None else None
        return files if written is None else replace(files, home=written)

    # -- the end ------------------------------------------------------------------------------------

    def remove(self, attempt: AttemptId) -> None:
        """Remove the home, after its container. Safe twice. What can't be removed is swept later."""
        if self._homes is None:
            return
        self._going.add(attempt)
        try:
            self._homes.remove(attempt)
        except OSError as error:
            log.warning("home.not_removed", attempt=str(attempt), reason=str(error))
            self._left.add(attempt)
            self._sweep_due = True
        finally:
            self._made.pop(attempt, None)
            self._known.discard(attempt)
            self._going.discard(attempt)

    @property
    def sweep_due(self) -> bool:
        """Whether ``sweep`` has something to do."""
        return self._homes is not None and self._sweep_due

    @property
    def going(self) -> Collection[AttemptId]:
        """Those whose home is being removed, so that it still takes space."""
        return tuple(self._going)

    def sweep(self, owned: Collection[AttemptId]) -> None:
        """Once after a start, and after a removal that failed: remove the homes that no attempt owns.

        ``owned``: those with a container or a box. Those of this life are kept anyway.
        """
        if self._homes is None or not self._lock.acquire(blocking=False):
            return
        try:
            self._sweep_due = False
            swept = self._homes.sweep(_Kept({*owned} - self._left, self._known))
            self._left = {attempt for attempt in self._left if self._homes.written(attempt) is not None}
            self._sweep_due = bool(self._left)
            if swept:
                log.info("homes.swept", count=swept)
        except OSError as error:
            log.warning("homes.not_swept", reason=str(error))
            self._sweep_due = True
        finally:
            self._lock.release()


def task_homes(attempts_dir: Path, launcher: Path) -> TaskHomes:
    """Homes beside the boxes, and not in them: a task sees its whole box."""
    return TaskHomes(attempts_dir.parent / "homes", user_namespace=(str(launcher), "user-namespace"))


class _Kept(Collection[AttemptId]):
    """Asked at each home, since one may be begun meanwhile."""

    def __init__(self, owned: Collection[AttemptId], known: set[AttemptId]) -> None:
        self._owned, self._known = frozenset(owned), known

    def __contains__(self, attempt: object) -> bool:
        return attempt in self._known or attempt in self._owned

    def __iter__(self) -> Iterator[AttemptId]:
        return iter(self._owned | set(self._known))

    def __len__(self) -> int:
        return len(self._owned | self._known)


def layers_of(found: Mapping[str, Any]) -> tuple[Path, ...]:
    """The folders of an image's layers, top first, in the engine's answer about it. Empty: it doesn't say."""
    data = (found.get("GraphDriver") or {}).get("Data") or {}
    said = [str(data.get("UpperDir") or ""), *str(data.get("LowerDir") or "").split(":")]
    return tuple(Path(one) for one in said if one.startswith("/"))


def engine_pid(url: str) -> int:
    """The process that listens at this address. 0: it is in another process namespace. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(5.0)
        connection.connect(url.removeprefix(_UNIX))
        facts = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", facts)[0])


def _is_owners(home: TaskHome, asked: HomeOrder) -> bool:
    """Whether the personal space is shown as the task's, and the account's on disk."""
    share = asked.shares.get(NFS_DIR)
    if share is None:
        return False
    same = (asked.uid, asked.gid) == (asked.share_uid, asked.share_gid)
    return same or home.binds.get(NFS_DIR) != share
