"""The config of an image: what it says, and what it may not say."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from . import config_form, documents, places
from .model import ArchiveLimits, ArchiveRefused

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CREATED_BY = 500
# Settings that a task may use, by the words of a Dockerfile. CMD is shown, and never run here.
_WORDS = {"Entrypoint": "ENTRYPOINT", "User": "USER", "WorkingDir": "WORKDIR"}


@dataclass(frozen=True, slots=True)
class Config:
    """What an image's config says. ``created_by`` has one text for each of ``diff_ids``."""

    architecture: str
    variant: str
    os: str
    created_at: float | None
    diff_ids: tuple[str, ...]
    created_by: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    user: str = ""
    working_dir: str = ""
    env: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def platform(self) -> str:
        """The platform, such as linux/amd64."""
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)

    def variable(self, name: str) -> str:
        """The value of an environment variable, "" if it isn't set."""
        found = ""
        for line in self.env:
            key, _, value = line.partition("=")
            if key == name:
                found = value
        return found


def parse_config(content: bytes, name: str, limits: ArchiveLimits) -> Config:
    """Reads a config.

    Raises:
        ArchiveRefused: it is no config of a Linux image with layers.
    """
    if len(content) > limits.config_bytes:
        raise ArchiveRefused(
            f"The image's config {name} is larger than {limits.config_bytes >> 20} MiB. Build it with fewer and "
            "shorter labels and variables."
        )
    what = f"The image's config {name}"
    document = config_form.checked(content, what)
    os = document.get("os") or "linux"
    if os != "linux":
        raise ArchiveRefused(f"The image is for {documents.clean(os, 40)}; the machines here run Linux images only.")
    rootfs = document.get("rootfs")
    if rootfs is None:
        raise ArchiveRefused(f"{what} has no rootfs: it doesn't say which layers the image has.")
    if rootfs.get("type") not in ("layers", "", None):
        raise ArchiveRefused(f"{what} has a rootfs of an unknown type.")
    diff_ids = rootfs.get("diff_ids") or ()
    if not diff_ids:
        raise ArchiveRefused(
            f"{what} has a rootfs without layers: there is nothing in the image. Build it with a COPY or a RUN."
        )
    if len(diff_ids) > limits.layers:
        raise ArchiveRefused(f"The image has {len(diff_ids)} layers; engines take {limits.layers}. Squash it.")
    for diff_id in diff_ids:
        if not _DIGEST.fullmatch(diff_id):
            raise ArchiveRefused(f"{what} names a layer {documents.clean(diff_id, 80)!r}, which is no sha256 digest.")
    settings = document.get("config") or documents.JsonObject()
    problem = places.problem_of_config(settings.get("Volumes") or (), settings.get("Env") or ()) or next(
        filter(None, (places.problem_of_words(word, _said(settings, key)) for key, word in _WORDS.items())), ""
    )
    if problem:
        raise ArchiveRefused(f"{problem}.")
    created_at = config_form.moment(document.get("created") or "")
    return Config(
        architecture=documents.clean(document.get("architecture") or "", 64),
        variant=documents.clean(document.get("variant") or "", 64),
        os=os,
        # Engines write the year 1 for "not said".
        created_at=created_at if created_at and created_at > 0 else None,
        diff_ids=diff_ids,
        created_by=_steps(document.get("history") or [], len(diff_ids)),
        entrypoint=_clean(settings.get("Entrypoint")),
        cmd=_clean(settings.get("Cmd")),
        user=documents.clean(settings.get("User") or ""),
        working_dir=_folder(documents.clean(settings.get("WorkingDir") or "")),
        env=_clean(settings.get("Env")),
        labels={
            documents.clean(key, 1024): documents.clean(text) for key, text in (settings.get("Labels") or {}).items()
        },
    )


def _said(settings: documents.JsonObject, key: str) -> Sequence[str]:
    value = settings.get(key) or ()
    return (value,) if isinstance(value, str) else value


def _clean(texts: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(map(documents.clean, texts or ()))


def _folder(path: str) -> str:
    """The path as a container has it: absolute, and not above its root."""
    return posixpath.normpath(f"/{path}").replace("//", "/") if path else ""


def _steps(history: Sequence[documents.JsonObject | None], layers: int) -> tuple[str, ...]:
    """The step of the build that made each layer, where the history fits."""
    found = [
        documents.clean(step.get("created_by") or "", _CREATED_BY)
        for step in (one or documents.JsonObject() for one in history)
        if step.get("empty_layer") is not True
    ]
    return tuple(found) if len(found) == layers else ("",) * layers
