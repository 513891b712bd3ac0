"""``NvmlGpus`` in a process of its own: the real bindings load a library once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_READ = """
import asyncio, dataclasses, json, sys
from pathlib import Path
from headway.errors import HeadwayError
from worker.machine.gpus import NvmlGpus
from worker.machine.gpus import kernel_files, nvml

class Journal:
    def __init__(self, file):
        self.file = Path(file)
    async def load(self):
        return self.file.read_text() if self.file.exists() else ""
    async def save(self, text):
        self.file.write_text(text)

async def main():
    asked = json.loads(sys.argv[1])
    folder = Path(asked["kernel"])
    gpus = NvmlGpus(outside_memory_bytes=512 << 20, clean_s=asked["clean_s"])
    gpus._library._kernel = lambda: kernel_files.kernel_cards(folder)
    gpus._library._may_use = lambda card: True
    await gpus.open(Journal(asked["journal"]))
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "return" in order:
                answer = dataclasses.asdict(await gpus.return_gpu(order["return"], gone=order["gone"]))
            else:
                answer = dataclasses.asdict(await gpus.read(order["ours"]))
        except HeadwayError as error:
            answer = {"error": type(error).__name__, "sentence": error.message}
        print(json.dumps(answer), flush=True)
    await gpus.close()
asyncio.run(main())
"""


class Reader:
    """Reads GPUs whenever it is asked. What it remembers lies in ``folder``, so another one takes it up."""

    def __init__(
        self, environment: dict[str, str], folder: Path, *, clean_s: float = 0.0, kernel: Path | None = None
    ) -> None:
        asked = {
            "journal": str(folder / "journal.json"),
            "clean_s": clean_s,
            "kernel": str(kernel or folder / "no-kernel-files"),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", _READ, json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def read(self, ours: Sequence[str] = ()) -> dict[str, Any]:
        """The inventory as plain values."""
        return self._ask({"ours": list(ours)})

    def gpus(self, ours: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """The GPUs by UUID."""
        return {gpu["uuid"]: gpu for gpu in self.read(ours)["gpus"]}

    def well(self, ours: Sequence[str] = ()) -> list[str]:
        """The UUIDs of what may be given out."""
        return [uuid for uuid, gpu in self.gpus(ours).items() if not (gpu["sick"] or gpu["busy_outside"])]

    def give_back(self, uuid: str, *, gone: bool = False) -> dict[str, Any]:
        """What an admin's wish to return a card is answered."""
        return self._ask({"return": uuid, "gone": gone})

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(self.close())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> str:
        """End it. The answer is what it logged."""
        _, said = self._process.communicate(timeout=10)
        return said
