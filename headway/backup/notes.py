"""Two notes in the state folder: a restore that is under way, and what the last one brought back and could not.

Services do not start beside the first. HttpServer tells the second for some days.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import ConfigInvalid

UNFINISHED = "restore-unfinished"
RESTORED = "restored.json"
_TOLD_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class RestoreNote:
    """What a restore did. ``came_later``: ids of jobs on the mount that came after the backup, some of ``count``."""

    made_at: float
    restored_at: float
    came_later: tuple[str, ...] = ()
    count: int = 0

    def sentence(self, made: str, *, ids: bool = True) -> str:
        """For people; ``made`` is the moment of the backup as they write it. Ids of jobs are for admins alone."""
        told = f"This cluster was restored from a backup of {made}: what was submitted or changed later is lost."
        if self.count:
            what = "1 job has its folder" if self.count == 1 else f"{self.count} jobs have their folders"
            told += f" {what} on the shared mount and came after the backup"
            more = f" and {self.count - len(self.came_later)} more" if self.count > len(self.came_later) else ""
            told += f": {', '.join(self.came_later)}{more}." if ids else "."
        return told


def refuse_unfinished(state_dir: str) -> None:
    """Passes unless a restore into this state folder was cut short.

    Raises:
        ConfigInvalid: it was; services would start on half of a state.
    """
    path = Path(state_dir, UNFINISHED)
    try:
        archive = path.read_text("utf-8", "replace").partition("\n")[0]
    except OSError:
        return
    raise ConfigInvalid(f"A restore into {state_dir} was cut short: run `headway restore {archive[:500]}` once more.")


def read_note(state_dir: str, now: float) -> RestoreNote | None:
    """The note of a restore of the last days; None: there was none, or it can't be read."""
    try:
        tree = json.loads(Path(state_dir, RESTORED).read_text("utf-8"))
        note = RestoreNote(
            float(tree["made_at"]), float(tree["restored_at"]), tuple(map(str, tree["came_later"])), int(tree["count"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return note if now < note.restored_at + _TOLD_S else None


def write_note(state: Path, note: RestoreNote) -> None:
    """Stores it durably."""
    _write(state / RESTORED, json.dumps(asdict(note)) + "\n")


def begin(state: Path, archive: Path, made_at: float) -> None:
    """From here on no service starts, until ``end``."""
    _write(state / UNFINISHED, f"{archive}\n{made_at!r}\n")


def end(state: Path) -> None:
    """The restore is whole."""
    (state / UNFINISHED).unlink(missing_ok=True)


def is_unfinished(state: Path, made_at: float) -> bool:
    """Whether a restore of the backup that was made then was cut short."""
    try:
        return (state / UNFINISHED).read_text("utf-8", "replace").splitlines()[1:] == [repr(made_at)]
    except OSError:
        return False


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.new")
    with draft.open("w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
