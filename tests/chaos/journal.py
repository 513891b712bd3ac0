"""What was done in a chaos run, line by line, by the boot clock."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from tests.support.machines.machine import boot_ns


class Journal:
    """Lines of JSON in a file, each with its moment in seconds of the run. Any thread may write."""

    def __init__(self, path: Path, *, aloud: bool = False) -> None:
        self.path = path
        self._aloud = aloud
        self._lock = threading.Lock()
        self._began_ns = boot_ns()
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def began(self) -> None:
        """From now on seconds count from here."""
        self._began_ns = boot_ns()

    def now_s(self) -> float:
        """Seconds of the run."""
        return (boot_ns() - self._began_ns) / 1e9

    def note(self, what: str, **facts: Any) -> None:
        """One line."""
        line = json.dumps({"at_s": round(self.now_s(), 3), "what": what, **facts})
        with self._lock:
            self._file.write(line + "\n")
            if self._aloud:
                print(f"  {line}", flush=True)

    def close(self) -> None:
        self._file.close()
