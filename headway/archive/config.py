"""The config of an image: what it says, and what it may not say."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import documents
from .model import ArchiveRefused, Limits

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")
_CREATED_BY = 500


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
        """Such as linux/amd64."""
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)

    def variable(self, name: str) -> str:
        """The value of an environment variable, "" if it isn't set."""
        found = ""
        for line in self.env:
            key, _, value = line.partition("=")
            if key == name:
                found = value
        return found


def parse_config(content: bytes, name: str, limits: Limits) -> Config:
    """Reads a config.

    Raises:
        ArchiveRefused: it is no config of a Linux image with layers.
    """
    if len(content) > limits.config_bytes:
        raise ArchiveRefused(f"The image's config {name} is larger than {limits.config_bytes >> 20} MiB.")
    what = f"The image's config {name}"
    document = documents.obj(documents.parse(content, what), what)
    os = documents.text(document.get("os"), what) or "linux"
    if os != "linux":
        raise ArchiveRefused(f"The image is for {documents.clean(os, 40)}; the machines here run Linux images only.")
    if "rootfs" not in document:
        raise ArchiveRefused(f"{what} has no rootfs: it doesn't say which layers the image has.")
    rootfs = documents.obj(document["rootfs"], what)
    if documents.text(rootfs.get("type"), what) not in ("layers", ""):
        raise ArchiveRefused(f"{what} has a rootfs of an unknown type.")
    diff_ids = documents.texts(rootfs.get("diff_ids"), what)
    if not diff_ids:
        raise ArchiveRefused(f"{what} has a rootfs without layers: there is nothing in the image.")
    if len(diff_ids) > limits.layers:
        raise ArchiveRefused(f"The image has {len(diff_ids)} layers; engines take {limits.layers}. Squash it.")
    for diff_id in diff_ids:
        if not _DIGEST.fullmatch(diff_id):
            raise ArchiveRefused(f"{what} names a layer {documents.clean(diff_id, 80)!r}, which is no sha256 digest.")
    settings = document.get("config")
    settings = documents.obj(settings, what) if settings is not None else documents.Obj()
    return Config(
        architecture=documents.clean(documents.text(document.get("architecture"), what), 64),
        variant=documents.clean(documents.text(document.get("variant"), what), 64),
        os=os,
        created_at=_instant(documents.text(document.get("created"), what)),
        diff_ids=diff_ids,
        created_by=_steps(document, len(diff_ids), what),
        entrypoint=_words(settings.get("Entrypoint"), what),
        cmd=_words(settings.get("Cmd"), what),
        user=documents.clean(documents.text(settings.get("User"), what)),
        working_dir=documents.clean(documents.text(settings.get("WorkingDir"), what)),
        env=tuple(map(documents.clean, documents.texts(settings.get("Env"), what))),
        labels=_labels(settings.get("Labels"), what),
    )


def _words(value: object, what: str) -> tuple[str, ...]:
    # Engines take a text for a list of one.
    found = (value,) if isinstance(value, str) else documents.texts(value, what)
    return tuple(map(documents.clean, found))


def _labels(value: object, what: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ArchiveRefused(f"{what} has labels that are none.")
    return {documents.clean(key, 1024): documents.clean(documents.text(text, what)) for key, text in value.items()}


def _steps(document: documents.Obj, layers: int, what: str) -> tuple[str, ...]:
    """Of each layer, the step of the build that made it, where the history fits."""
    found = [
        documents.clean(documents.text(step.get("created_by"), what), _CREATED_BY)
        for step in documents.objects(document.get("history"), what)
        if step.get("empty_layer") is not True
    ]
    return tuple(found) if len(found) == layers else ("",) * layers


def _instant(text: str) -> float | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00"))
        # Engines write the year 1 for "not said".
        return moment.timestamp() + float(f"0.{match[2] or 0}") if moment.year >= 1970 else None
    except (ValueError, OverflowError):
        return None
