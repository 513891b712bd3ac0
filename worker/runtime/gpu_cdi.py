"""Which devices the CDI lists of a machine name. An engine with CDI reads the same files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from headway.logs import get_logger

log = get_logger(__name__)

_MOST_BYTES = 8 << 20
_ENDINGS = frozenset({".json", ".yaml", ".yml"})


def cdi_devices(folders: Iterable[str]) -> frozenset[str]:
    """The full names of all devices in the lists of these folders. Blocks. A list that can't be read has none."""
    found: set[str] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            for path in sorted(Path(folder).iterdir()):
                if path.suffix in _ENDINGS:
                    found |= _devices_of(path)
    return frozenset(found)


def _devices_of(path: Path) -> set[str]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("it is too large")
        text = path.read_text("utf-8")
        said = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=_LOADER)
        return set(names_of(said))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        log.warning("gpu.cdi_list_unreadable", file=str(path), reason=str(error).partition("\n")[0])
        return set()


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def names_of(said: Any) -> list[str]:
    """The devices of one list. Pure. Raises ValueError if it is none."""
    if not isinstance(said, Mapping) or not isinstance(said.get("kind"), str):
        raise ValueError("it is no list of CDI devices")
    devices = said.get("devices") or ()
    if not isinstance(devices, list):
        raise ValueError("its devices are no list")
    return [f"{said['kind']}={one['name']}" for one in devices if isinstance(one, Mapping) and "name" in one]
