"""Whom an image's USER means, by the tables in its layers. The launcher reads them alike (``find_user``)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path


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
    raise NotImplementedError
