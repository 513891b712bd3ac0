"""What is asked of a task's home, and what comes of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headway.errors import HeadwayError


class HomeImpossible(HeadwayError):
    """This home can't be made here, whatever is tried. The sentence says why; the container may start without one."""

    code = "FAILED_PRECONDITION"
    http_status = 503
    slug = "home-impossible"
    title = "The task's home can't be made as promised"


@dataclass(frozen=True, slots=True)
class HomeOrder:
    """A home for one attempt.

    ``uid`` and ``gid`` are those of the task's process in the container. ``layers`` are the folders of the image's
    layers, top first. ``volumes`` are the paths that the image declares as volumes.

    ``shares`` are folders of this machine that the container sees, by their places below ``/root``. On disk they
    belong to ``share_uid`` and ``share_gid``. Without these nothing is shown as anybody else's.

    ``writable`` says in which shares a folder may be made for a volume of the image.

    ``is_images_user`` says that the uid comes from the image, so what it has there for this uid is the task's too.

    ``mountpoints`` are further places below ``/root`` where the engine mounts something, such as datasets. They are
    made, so that they belong to the task.
    """

    uid: int
    gid: int
    layers: tuple[Path, ...]
    volumes: tuple[str, ...] = ()
    shares: Mapping[str, Path] = field(default_factory=dict)
    share_uid: int | None = None
    share_gid: int | None = None
    mountpoints: tuple[str, ...] = ()
    writable: Collection[str] = ("/root/nfs",)
    is_images_user: bool = False


@dataclass(frozen=True, slots=True)
class TaskHome:
    """A home that is ready to be bound into a container.

    ``binds`` has the folder on this machine for each place in the container, parents first. It contains ``/root`` and
    every share. A share that is shown as the task's own has another folder here than in the order.

    ``written`` is the folder in which all lies that the task writes there. ``notes`` are sentences for the platform
    log.
    """

    binds: Mapping[str, Path]
    written: Path
    notes: tuple[str, ...] = ()
