"""What of a machine is the state of its managers, as its configuration says it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import HeadwayConfig
from ..config.loading import flattened
from ..config.values import FilePath
from ..store.database import parse_url
from .manifest import POSTGRESQL, SQLITE

# Workers keep what runs on their machine, of which an old copy says nothing: they are in no backup.
SERVICES = ("job_manager", "task_manager", "resource_manager", "httpserver")
# Folders, what the machine makes anew, and what is no state.
_NO_FILES = frozenset({"cluster.mount", "cluster.state_dir", "cluster.trust_dir", "worker.folder", "log.file"})


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """Where a service keeps its tables: ``path`` of a file, or ``url`` of PostgreSQL."""

    service: str
    url: str
    path: Path | None

    @property
    def kind(self) -> str:
        return SQLITE if self.path else POSTGRESQL

    @property
    def shown(self) -> str:
        return str(self.path) if self.path else f"the PostgreSQL schema {self.service}"


def database_of(config: HeadwayConfig, service: str) -> DatabasePlace:
    """Where the database of one of ``SERVICES`` is.

    Raises:
        ConfigInvalid: its URL makes no sense.
    """
    url = parse_url(getattr(config, service).database)
    path = Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None
    return DatabasePlace(service, getattr(config, service).database, path)


def file_keys(config: HeadwayConfig) -> Iterator[tuple[str, str]]:
    """All settings that name a file of the state, each with its path; also those that are not there.

    They follow from the type of the setting: a new one needs no line here.
    """
    for key, value in flattened(config):
        if _is_file(key) and value:
            yield key, str(value)


def named_in(text: str, folder: Path) -> dict[str, str]:
    """The same of a headway.toml that can't be loaded yet, since its files are missing. Paths count from ``folder``.

    Raises:
        tomllib.TOMLDecodeError: it is no TOML.
    """
    tree: dict[str, Any] = tomllib.loads(text)
    found = {}
    for section, keys in tree.items():
        for name, value in keys.items() if isinstance(keys, dict) else ():
            key = f"{section}.{name}"
            if isinstance(value, str) and value and _is_file(key):
                found[key] = str(absolute(folder, value))
    return found


def trust_in(text: str, folder: Path) -> Path | None:
    """The folder of certificates in a headway.toml that can't be loaded yet."""
    cluster = tomllib.loads(text).get("cluster")
    value = cluster.get("trust_dir") if isinstance(cluster, dict) else None
    return absolute(folder, value) if isinstance(value, str) and value else None


def absolute(folder: Path, value: str) -> Path:
    """A path of a headway.toml that lies in ``folder``."""
    return Path(folder.absolute(), Path(value).expanduser())


def _is_file(key: str) -> bool:
    section, _, name = key.partition(".")
    table = HeadwayConfig.model_fields.get(section)
    fields = getattr(table.annotation, "model_fields", {}) if table is not None else {}
    if key in _NO_FILES or name not in fields:
        return False
    marks = FilePath.__metadata__  # type: ignore[attr-defined]
    return any(mark in marks for mark in fields[name].metadata)
