"""A headway.toml of a test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_settings(path: Path, values: Mapping[str, Any]) -> None:
    """Writes keys such as ``cluster.lease_s`` with their values, in their sections."""
    sections: dict[str, list[str]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, []).append(f"{name} = {_toml(value)}")
    path.write_text("".join(f"[{name}]\n" + "\n".join(lines) + "\n\n" for name, lines in sections.items()))


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return json.dumps(str(value), ensure_ascii=False)
