"""One hold as it is kept: a small file that is replaced whole, so the next Worker reads the old or the new."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headway.ids import AttemptId

from ..box import BoxEnd, EndRecord, StopWord, write_atomic
from ..model import attempt_of_folder


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that has the GPUs: its id alone may be given to another one later."""

    pid: int
    start_ticks: int
    uid: int


@dataclass(frozen=True, slots=True)
class Ending:
    """It was told to end. ``at_ns`` is when, by the boot clock."""

    reason: BoxEnd
    at_ns: int
    grace_ms: int
    word: StopWord | None = None


@dataclass(slots=True)
class HoldRecord:
    """See the module. Instants in ``_ns`` are by the boot clock, but ``wall_ns``."""

    attempt: AttemptId
    key_hash: str
    gpu_uuids: tuple[str, ...]
    timeout_ms: int
    grace_ms: int
    lease_grace_ms: int
    boot_id: str
    offered_ns: int
    lease_until_ns: int | None = None
    facts: dict[str, str] = field(default_factory=dict)  # for the environment of its program
    launch: bytes = b""
    holder: Holder | None = None
    taken_ns: int = 0
    wall_ns: int = 0
    extended: bool = False
    ending: Ending | None = None
    withdrawn: bool = False
    exit_code: int | None = None  # as its client said
    signal: int | None = None
    end: EndRecord | None = None

    def to_json(self) -> bytes:
        data = asdict(self)
        data["attempt"] = self.attempt.folder
        data["launch"] = base64.b64encode(self.launch).decode()
        return json.dumps(data, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes) -> HoldRecord:
        """
        Raises:
            ValueError, KeyError, TypeError: it is none.
        """
        data: dict[str, Any] = json.loads(text)
        attempt = attempt_of_folder(data.pop("attempt"))
        if attempt is None:
            raise ValueError("no attempt")
        holder, ending, end = data.pop("holder"), data.pop("ending"), data.pop("end")
        launch, uuids = base64.b64decode(data.pop("launch")), tuple(data.pop("gpu_uuids"))
        return cls(
            attempt=attempt,
            launch=launch,
            gpu_uuids=uuids,
            holder=Holder(**holder) if holder else None,
            ending=_ending(ending) if ending else None,
            end=_end(end) if end else None,
            **data,
        )


def _ending(data: dict[str, Any]) -> Ending:
    return Ending(BoxEnd(data["reason"]), data["at_ns"], data["grace_ms"], _word(data["word"]))


def _end(data: dict[str, Any]) -> EndRecord:
    return EndRecord(**{**data, "reason": BoxEnd(data["reason"]), "stop_word": _word(data["stop_word"])})


def _word(text: str | None) -> StopWord | None:
    return None if text is None else StopWord(text)


class HoldFiles:
    """The files of all holds of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, record: HoldRecord) -> None:
        """The next Worker finds it. After a power cut nothing of it counts: no disk is waited for. Raises OSError."""
        write_atomic(self._folder / f"{record.attempt.folder}.json", record.to_json())

    def remove(self, attempt: AttemptId) -> None:
        (self._folder / f"{attempt.folder}.json").unlink(missing_ok=True)

    def load(self) -> list[HoldRecord]:
        """All that can be read."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                found.append(HoldRecord.from_json(path.read_bytes()))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return found
