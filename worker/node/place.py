"""Whether this Worker's folder is where it was at its last start. Pure.

A folder that was copied with a machine's disk knows attempts that run elsewhere. So a Worker that finds itself in
another place says nothing of attempts, and touches none, before ResourceManager has taken it.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.errors import ConfigInvalid


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """Where a folder is used."""

    node_id: str
    boot_id: str
    address: str

    def to_text(self) -> str:
        return f"{self.boot_id} {self.address} {self.node_id}"


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a start has to wait for."""

    before_telling: bool  # heartbeats and reports wait until the Worker was taken
    before_adopting: bool  # so does whatever is done with stored attempts


def arrival(stored: str, place: FolderPlace, *, has_attempts: bool) -> Arrival:
    """How a Worker begins whose folder was last used at ``stored`` (a text of ``FolderPlace``; empty: not known).

    Raises:
        ConfigInvalid: the machine has another name by now, and the folder still has attempts under the old one.
    """
    if stored == place.to_text():
        return Arrival(False, False)
    if not stored:
        return Arrival(not has_attempts, False)  # a new folder, or one of an older version: then it must not wait
    name = stored.split(" ", 2)[-1]
    if name != place.node_id and has_attempts:
        raise ConfigInvalid(
            f"The worker's folder has attempts of the node {name}, and this worker is called {place.node_id}. Set "
            f'`worker.node_id = "{name}"`, let its tasks end, then rename it. If the folder was copied from another '
            "machine, empty it."
        )
    return Arrival(True, has_attempts)
