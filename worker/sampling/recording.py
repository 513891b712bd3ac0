"""The samples of one attempt on the Worker's own disk, and what follows from them: minutes and sums.

A restarted Worker reads the file once and goes on after a gap. All functions block on the local disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.logs import get_logger
from headway.model.gpu_readings import GpuReadings, readings_of
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.samples.layout import OURS
from headway.samples.model import FILE, MINUTES_FILE, GpuIdentity, Header, Sample
from headway.samples.reading import FileSource, SampleFile
from headway.samples.sums import Sums
from headway.samples.writing import RollUp, encode_header, encode_sample

from ..box import open_regular
from ..ports import ContainerCounters, GpuReading

log = get_logger(__name__)

_COUNTED = ("disk_read_bytes", "disk_written_bytes", "network_received_bytes", "network_sent_bytes")
_NO_COUNTERS = ContainerCounters()
_NO_READINGS = GpuReadings()


@dataclass(frozen=True, slots=True)
class RecordingPaths:
    """Both files of an attempt, in one folder."""

    folder: Path

    @property
    def samples(self) -> Path:
        return self.folder / FILE

    @property
    def minutes(self) -> Path:
        return self.folder / MINUTES_FILE


class Recording:
    """See the module. ``resume`` goes on with a file that is there, ``begin`` makes a new one."""

    def __init__(self, paths: RecordingPaths, header: Header) -> None:
        self.paths = paths
        self.header = header
        self._sums = Sums(header)
        self._minutes = RollUp(header)
        self._counted_s: float | None = None  # CPU time at the last sample that knew it
        self._counted_at = 0.0
        self._bytes: dict[str, int] = {}
        self._knew_container = False
        self._last_at: float | None = None
        self._not_written = False
        self.peak_memory_bytes: int | None = None

    @classmethod
    def begin(cls, folder: Path, header: Header) -> Recording:
        """A new one. Raises OSError."""
        made = cls(RecordingPaths(folder), header)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        front = encode_header(header)
        for path in (made.paths.samples, made.paths.minutes):
            _append(path, front, anew=True)
        return made

    @classmethod
    def resume(
        cls, folder: Path, gpu_uuids: tuple[str, ...], on_sample: Callable[[Sample], None] = lambda sample: None
    ) -> Recording | None:
        """Read what is there, and go on after its last whole record. None: there is nothing to go on with.

        ``on_sample`` gets all samples of before. A file of another version of Headway stays as it is, for readers.
        Raises OSError.
        """
        paths = RecordingPaths(folder)
        try:
            descriptor = open_regular(paths.samples, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            file = SampleFile(FileSource(descriptor))
            header = file.known()
            if file.columns != OURS or file.gpus != len(gpu_uuids) or file.begin == 0:
                return None
            made = cls(paths, header)
            minutes = [encode_header(header)]
            for sample in file.samples():
                record = made._take(sample)
                if record is not None:
                    minutes.append(record)
                on_sample(sample)
            whole = file.size - max(0, file.size - file.begin) % file.record_size
            if whole < os.fstat(descriptor).st_size:
                os.ftruncate(descriptor, whole)
        finally:
            os.close(descriptor)
        # Its counters ran on meanwhile: the next sample has what was added since.
        use = made._sums.use()
        made._bytes = {name: getattr(use, name) for name in _COUNTED if use.HasField(name)}
        part = paths.minutes.with_name(f"{MINUTES_FILE}.part")
        _append(part, b"".join(minutes), anew=True)
        os.replace(part, paths.minutes)
        return made

    def add(self, at: float, counters: ContainerCounters | None, readings: Mapping[str, GpuReading]) -> Sample | None:
        """Write a sample. None: its container is gone, so there is nothing to see any more."""
        if counters is None and self._knew_container:
            return None
        self._knew_container = self._knew_container or counters is not None
        sample = self._sample(at, counters or _NO_COUNTERS, readings)
        minute = self._take(sample)
        self._write(self.paths.samples, encode_sample(self.header, sample))
        if minute is not None:
            self._write(self.paths.minutes, minute)
        return sample

    def end(self) -> tm.AttemptUse | None:
        """Write the last minute. The sums of all; None: too little was seen."""
        minute = self._minutes.flush()
        if minute is not None:
            self._write(self.paths.minutes, minute)
        use = self._sums.use()
        return use if use.measured_s > 0 else None

    def _take(self, sample: Sample) -> bytes | None:
        self._sums.add(sample)
        self._last_at = sample.at
        return self._minutes.add(sample)

    def _sample(self, at: float, counters: ContainerCounters, readings: Mapping[str, GpuReading]) -> Sample:
        cpu_used = None
        if counters.cpu_s is not None:
            if self._counted_s is None and self._last_at is None:
                self._counted_s, self._counted_at = 0.0, self.header.began_at  # all since its start
            span_s = at - self._counted_at
            if self._counted_s is not None and span_s > 0:
                cpu_used = max(0.0, counters.cpu_s - self._counted_s) / span_s
            self._counted_s, self._counted_at = counters.cpu_s, at
        counted: dict[str, int | None] = {}
        for name in _COUNTED:
            total = getattr(counters, name)
            counted[name] = None if total is None else max(0, total - self._bytes.get(name, 0))
            if total is not None:
                self._bytes[name] = total
        if counters.peak_memory_bytes is not None:
            self.peak_memory_bytes = max(self.peak_memory_bytes or 0, counters.peak_memory_bytes)
        gpus = []
        for gpu in self.header.gpus:
            reading = readings.get(gpu.uuid)
            gpus.append(_NO_READINGS if reading is None else GpuReadings(**readings_of(reading)))
        return Sample(at=at, gpus=tuple(gpus), cpu_used=cpu_used, memory_bytes=counters.memory_bytes, **counted)

    def _write(self, path: Path, record: bytes) -> None:
        try:
            _append(path, record)
        except OSError as error:
            # A full disk: the sample is missing, and the next one is tried.
            if not self._not_written:
                log.warning("samples.not_written", path=str(path), reason=error.strerror or str(error))
            self._not_written = True
        else:
            self._not_written = False


def header_of(
    gpu_uuids: tuple[str, ...], readings: Mapping[str, GpuReading], *, every_s: float, began_at: float
) -> Header:
    """The header of a new recording. A GPU that can't be read now has only its UUID."""
    gpus = []
    for uuid in gpu_uuids:
        found = readings.get(uuid)
        gpus.append(GpuIdentity(uuid, found.model if found else "", found.memory_bytes if found else 0))
    return Header(tuple(gpus), every_s, began_at)


def _append(path: Path, data: bytes, *, anew: bool = False) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if anew else os.O_APPEND)
    descriptor = os.open(path, flags, 0o600)
    try:
        written = os.write(descriptor, data)
        if written < len(data):
            # Whole records only: half a one is taken back.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)
