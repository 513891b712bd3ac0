"""What is known of an image, what an archive may cost, and how one is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import HeadwayError, InvalidInput

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class ArchiveRefused(InvalidInput):
    """The uploaded file is no image that Headway takes; the message says why and what to do."""

    http_status = 422
    slug = "image-refused"
    title = "This file is no image that can be taken"


class SeveralImages(ArchiveRefused):
    """The archive holds several images, and nobody said which one is meant."""

    title = "The archive holds several images"

    def __init__(self, message: str, choices: Sequence[str]) -> None:
        super().__init__(message, extra={"choices": list(choices)})
        self.choices = tuple(choices)


class ImageDamaged(HeadwayError):
    """A part of a stored image is missing or not what was stored."""

    code = "DATA_LOSS"
    http_status = 500
    slug = "image-damaged"
    title = "A stored image is damaged; upload it again"


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """What one archive may hold and cost.

    A bomb is what unpacks to more than ``ratio`` times the uploaded file and to more than ``ratio_free_bytes``.
    """

    unpacked_bytes: int = 512 * GIB
    ratio: int = 200
    ratio_free_bytes: int = 2 * GIB
    layers: int = 125  # engines stack no more than this
    config_bytes: int = 4 * MIB
    document_bytes: int = 4 * MIB  # manifest.json, index.json and the like, each
    documents_bytes: int = 32 * MIB  # all of them together
    members: int = 20_000  # of the archive itself
    layer_members: int = 4_000_000  # of all layers together
    member_bytes: int = 256 * GIB
    name_bytes: int = 4 * KIB
    header_bytes: int = 1 * MIB  # one extended header of a member
    keep_free_bytes: int = 0  # of the disk, for others


@dataclass(frozen=True, slots=True)
class LayerInfo:
    """A layer: digest and size of its uncompressed tar (the diff_id), and the step that made it."""

    digest: str
    size_bytes: int
    created_by: str = ""


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """What the market shows of an image.

    ``size_bytes`` is the sum of the unpacked layers. ``created_at`` is in seconds since the epoch, None if the image
    doesn't say. ``python_version``, ``cuda_version`` and ``frameworks`` are what files, environment and labels tell,
    empty where they tell nothing; ``require_cuda`` is NVIDIA_REQUIRE_CUDA of the environment.
    """

    digest: str
    architecture: str
    os: str
    created_at: float | None
    size_bytes: int
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    user: str
    working_dir: str
    env: tuple[str, ...]
    labels: Mapping[str, str]
    has_shell: bool
    has_bash: bool
    python_version: str
    cuda_version: str
    require_cuda: str
    frameworks: Mapping[str, str] = field(default_factory=dict)
    layers: tuple[LayerInfo, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values, for files and answers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ImageInfo:
        """The inverse of :meth:`to_json`; unknown keys of a newer version are dropped.

        Raises:
            KeyError, TypeError, ValueError: ``data`` is something else.
        """
        known = {key: data[key] for key in cls.__slots__ if key in data}
        for key in ("entrypoint", "cmd", "env"):
            known[key] = tuple(known[key])
        known["layers"] = tuple(
            LayerInfo(layer["digest"], layer["size_bytes"], layer.get("created_by", "")) for layer in known["layers"]
        )
        return cls(**known)
