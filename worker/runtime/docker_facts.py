"""From the engine's answer about a container to facts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..ports import ContainerFacts, ContainerState

CONTAINER_STATES = {
    "created": ContainerState.CREATED,
    "running": ContainerState.RUNNING,
    "paused": ContainerState.RUNNING,
    "restarting": ContainerState.RUNNING,
    "removing": ContainerState.EXITED,
    "exited": ContainerState.EXITED,
    "dead": ContainerState.EXITED,
}


def container_facts(found: Mapping[str, Any]) -> ContainerFacts:
    """From the engine's answer about one container."""
    said = found.get("State") or {}
    state = CONTAINER_STATES.get(said.get("Status", ""), ContainerState.RUNNING)
    ended = state is ContainerState.EXITED
    return ContainerFacts(
        state,
        id=str(found.get("Id", "")),
        image_id=str(found.get("Image", "")),
        exit_code=said.get("ExitCode") if ended else None,
        oom_killed=ended and bool(said.get("OOMKilled")),
        error=str(said.get("Error") or ""),
        started_at=_instant(said.get("StartedAt")),
        ended_at=_instant(said.get("FinishedAt")) if ended else None,
    )


def _instant(text: object) -> float | None:
    """Epoch seconds of the engine's time. None for its zero, which is year 1."""
    if not isinstance(text, str) or text.startswith("0001-"):
        return None
    head, _, fraction = text.removesuffix("Z").partition(".")
    try:
        seconds = datetime.fromisoformat(f"{head}+00:00").timestamp()
    except ValueError:
        return None
    return seconds + (float(f"0.{fraction}") if fraction.isdigit() else 0.0)
