"""What is counted for an attempt on a full disk."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from tests.unit.worker.builders import an_attempt
from worker.attempt.disk_usage import AttemptDiskUsage
from worker.machine import file_usage
from worker.ports import ContainerFiles

MIB = 1 << 20


async def test_files_without_a_name_count_on_the_disk_and_in_all_that_is_stacked_at_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 MiB in a deleted file of a volume, or of a folder of the image's user, were 0 bytes: another task was ended.

    The volumes of a home lie on the disk itself. Its folders are stacked, each with a device of its own.
    """
    written = tmp_path / "written"
    written.mkdir()
    with _gone(written / "gone") as file:
        on_disk = os.fstat(file.fileno()).st_dev

        class Runtime:
            async def files(self, _: object) -> ContainerFiles:
                return ContainerFiles(pid=os.getpid(), home=written)

        executor = SimpleNamespace(
            record=SimpleNamespace(attempt=an_attempt(), stop=None, times=SimpleNamespace(process_started_at=None))
        )
        usage = AttemptDiskUsage(tmp_path, *_any(Runtime(), None), lambda: _any(executor))
        monkeypatch.setattr(file_usage, "processes_with", lambda pid: [pid])
        try:
            assert MIB <= (await usage.uses(on_disk))[an_attempt()] < 2 * MIB
            # As if the disk were another one, on which the home lies, and the file were in a stacked folder of it.
            real = file_usage.device_of
            monkeypatch.setattr(file_usage, "device_of", lambda path: -1 if path == written else real(path))
            assert (await usage.uses(-1))[an_attempt()] == 0
            monkeypatch.setattr(file_usage, "home_devices", lambda pid: {on_disk})
            assert MIB <= (await usage.uses(-1))[an_attempt()] < 2 * MIB
        finally:
            usage.close()


def _gone(path: Path) -> IO[bytes]:
    """An open file without a name."""
    file = open(path, "wb")  # noqa: SIM115
    file.write(b"x" * MIB)
    file.flush()
    os.fsync(file.fileno())
    path.unlink()
    return file


def _any(*values: Any) -> Any:
    return values
