"""From an uploaded file to an image of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from io import FileIO
from pathlib import Path

from ..errors import HeadwayError, StoreFull
from .disk import as_problems, make_durable
from .inspection import ImageContents, LayerInspection, inspect_layers
from .layers import CopiedLayer, Meter, copy_layer
from .manifests import Candidate, candidates, chosen
from .model import MIB, ArchiveLimits, ArchiveRefused, ImageInfo, LayerInfo
from .places import deciding_with, problem_of_layers
from .store import ImageStore, NewLayer
from .tar import shown
from .uploaded import UploadedArchive, bomb

_LOOK_AT_ROOM_EVERY = 64 * MIB


class IngestCancelled(HeadwayError):
    """Whoever asked for the ingest doesn't want it any more; nothing was stored."""

    code = "CANCELLED"
    http_status = 409
    slug = "ingest-cancelled"
    title = "The check of the archive was cancelled; nothing was stored"


def _nothing(done: int, total: int) -> None:
    """Hears of progress and does nothing with it."""


def ingest(
    source: Path,
    store: ImageStore,
    *,
    choose: str = "",
    limits: ArchiveLimits = ArchiveLimits(),  # noqa: B008 - frozen
    on_progress: Callable[[int, int], None] = _nothing,
    cancelled: Callable[[], bool] = lambda: False,
) -> ImageInfo:
    """Checks an uploaded archive to its last byte and keeps its image. Blocking; minutes for tens of GB.

    ``choose`` says which image is meant where there are several. It is a tag of the archive, a platform such as
    linux/arm64, or the digest of a config. ``on_progress`` hears how many bytes of how many are done; ``cancelled``
    is asked all the time. The same archive may be taken in again, also at the same moment: it is stored once. On
    failure nothing is left.

    Raises:
        ArchiveRefused: the file is no image that is taken; the message says why.
        SeveralImages: ``choose`` is needed; it is among the former.
        StoreFull: the disk is full.
        MountUnavailable: the shared folder or the file can't be read or written.
        IngestCancelled: ``cancelled`` said so.
    """
    return _Ingest(source, store, choose, limits, on_progress, cancelled).run()


class _Ingest:
    def __init__(
        self,
        source: Path,
        store: ImageStore,
        choose: str,
        limits: ArchiveLimits,
        on_progress: Callable[[int, int], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self._source = source
        self._store = store
        self._choose = choose
        self._limits = limits
        self._on_progress = on_progress
        self._cancelled = cancelled
        self._done = 0
        self._total = 0
        self._file_bytes = 0
        self._unpacked = 0
        self._until_look = 0
        self._deciding: Set[str] = frozenset()

    def run(self) -> ImageInfo:
        outer = UploadedArchive(self._source, self._limits, self._read)
        try:
            self._file_bytes = self._total = outer.file_bytes
            outer.index()
            image = chosen(candidates(outer, self._limits), self._choose)
            wanted = _wanted(image)
            sizes = sum(outer.find(name, "layer").size for name in wanted)
            self._total = 2 * outer.file_bytes if outer.packing else sizes
            with as_problems("The image"), self._store.work() as work:
                info, layers = self._layers(outer, image, wanted, work)
                self._stop_if_cancelled()
                self._store.publish(work, info, image.config_bytes, layers)
        finally:
            outer.close()
        self._on_progress(self._total, self._total)
        return info

    def _layers(
        self, outer: UploadedArchive, image: Candidate, wanted: Mapping[str, tuple[str, str]], work: Path
    ) -> tuple[ImageInfo, list[NewLayer]]:
        trusted = self._store.trusted_layers()
        new: dict[str, NewLayer] = {}
        looks: dict[str, LayerInspection] = {}
        meter = Meter(self._limits, self._grow)
        self._deciding = deciding_with(image.config.working_dir)
        for member, content in outer.contents(wanted):
            diff_id, digest = wanted[member.name]
            path = self._store.adopt(diff_id, work, trusted)
            if path is not None or diff_id in new:
                # It is there already: what came is checked all the same, and not written.
                passed = self._pass(content, member.name, diff_id, digest, meter, None)
            else:
                # Zstd layers grow; the others take just this, and don't fill the disk first to find out.
                self._room_for(member.size)
                spool = work / f"layer-{len(new)}"
                with spool.open("xb", buffering=0) as file:
                    passed = self._pass(content, member.name, diff_id, digest, meter, file)
                    make_durable(file.fileno())
                path = self._store.named(spool, diff_id, packed=passed.packed)
            if path is not None:
                new[diff_id] = NewLayer(diff_id, passed.size_bytes, path)
            looks[diff_id] = passed.look
        problem = problem_of_layers(
            [looks[diff_id].places for diff_id in image.config.diff_ids], image.config.working_dir
        )
        if problem:
            raise ArchiveRefused(f"{problem}.")
        found = inspect_layers([looks[diff_id] for diff_id in image.config.diff_ids], image.config)
        layers = [new[diff_id] for diff_id in image.config.diff_ids]
        return _info(image, layers, found), layers

    def _pass(
        self,
        content: Iterator[bytes],
        name: str,
        diff_id: str,
        digest: str,
        meter: Meter,
        file: FileIO | None,
    ) -> CopiedLayer:
        def write(piece: bytes) -> None:
            assert file is not None
            self._until_look -= len(piece)
            if self._until_look < 0:
                self._until_look = _LOOK_AT_ROOM_EVERY
                self._room_for(len(piece))
            view = memoryview(piece)
            while view:
                view = view[file.write(view) :]

        return copy_layer(
            content,
            name=name,
            diff_id=diff_id,
            digest=digest,
            meter=meter,
            write=write if file is not None else None,
            deciding=self._deciding,
        )

    def _room_for(self, count: int) -> None:
        free = self._store.free_bytes() - self._limits.keep_free_bytes
        if free < count:
            raise StoreFull(
                f"The disk of the shared folder has no room for this image: {max(free, 0) >> 20} MiB are left, and "
                f"{max(count >> 20, 1)} MiB more are needed. Nothing was stored."
            )

    def _grow(self, count: int) -> None:
        self._unpacked += count
        most = min(
            self._limits.unpacked_bytes, max(self._limits.ratio_free_bytes, self._limits.ratio * self._file_bytes)
        )
        if self._unpacked > most:
            raise bomb(self._file_bytes, most)
        self._stop_if_cancelled()

    def _read(self, count: int) -> None:
        self._done += count
        self._on_progress(min(self._done, self._total), self._total)
        self._stop_if_cancelled()

    def _stop_if_cancelled(self) -> None:
        if self._cancelled():
            raise IngestCancelled


def _wanted(image: Candidate) -> dict[str, tuple[str, str]]:
    """Each member that holds a layer, with the layer's diff_id and the digest of the member's bytes.

    Raises:
        ArchiveRefused: one member is meant to be two different layers.
    """
    wanted: dict[str, tuple[str, str]] = {}
    for diff_id, layer in zip(image.config.diff_ids, image.layers, strict=True):
        if wanted.setdefault(layer.member, (diff_id, layer.digest)) != (diff_id, layer.digest):
            raise ArchiveRefused(f"The file {shown(layer.member)} of the archive is meant to be two different layers.")
    return wanted


def _info(image: Candidate, layers: list[NewLayer], found: ImageContents) -> ImageInfo:
    config = image.config
    return ImageInfo(
        digest=image.digest,
        architecture=config.architecture,
        os=config.os,
        created_at=config.created_at,
        size_bytes=sum(layer.size_bytes for layer in layers),
        entrypoint=config.entrypoint,
        cmd=config.cmd,
        user=config.user,
        working_dir=config.working_dir,
        env=config.env,
        labels=config.labels,
        has_shell=found.has_shell,
        has_bash=found.has_bash,
        python_version=found.python_version,
        cuda_version=found.cuda_version,
        require_cuda=config.variable("NVIDIA_REQUIRE_CUDA"),
        frameworks=found.frameworks,
        layers=tuple(
            LayerInfo(layer.digest, layer.size_bytes, step)
            for layer, step in zip(layers, config.created_by, strict=True)
        ),
    )
