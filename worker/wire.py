"""Converts messages to and from the Worker's own values, with the kernel's ``convert``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headway.model.gpu_readings import readings_of
from headway.rpc import convert
from headway.rpc.v1 import common_pb2
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.rpc.v1 import worker_pb2 as pb
from headway.safe_text import valid_text
from headway.states import AttemptEventKind

from .box import StopWord
from .model import (
    AttemptRecord,
    AttemptStage,
    EndDecision,
    ExtendAttempt,
    Extension,
    ImageSource,
    LaunchAttempt,
    LocalHold,
    Owner,
    WantedImage,
)
from .ports import EngineImage, GpuReading

_MAX_PROCESSES = 20  # of a GPU

_SOURCES = {
    common_pb2.IMAGE_SOURCE_MARKET: ImageSource.MARKET,
    common_pb2.IMAGE_SOURCE_ENGINE: ImageSource.ENGINE,
    common_pb2.IMAGE_SOURCE_REGISTRY: ImageSource.REGISTRY,
}


def launch(message: pb.LaunchAttempt) -> LaunchAttempt:
    """The launch in a message. Raises ValueError or KeyError for an invalid one."""
    return LaunchAttempt(
        attempt=convert.attempt_id(message.attempt),
        owner=Owner(
            name=message.owner.name,
            uid=message.owner.uid,
            gid=message.owner.gid,
            may_use_image_user=message.owner.may_use_image_user,
        ),
        spec=convert.task_spec(message.spec),
        generation=message.generation,
        job_name=message.job_name,
        image_digest=message.spec.image_digest,
        image_source=_SOURCES.get(message.spec.image_source, ImageSource.UNKNOWN),
        image_bytes=message.spec.image_bytes,
        dataset_versions={pin.name: pin.version for pin in message.spec.dataset_pins},
        gpu_uuids=tuple(message.gpu_uuids),
        placed_at=message.placed_at,
        incarnation=message.incarnation,
        lease_s=message.lease_s,
        lease_enforced=message.lease_enforced,
        local=LocalHold(message.spec.local.node_id, message.spec.local.key_hash)
        if message.spec.HasField("local")
        else None,
    )


def prefetch_images(request: pb.PrepareImagesRequest) -> list[WantedImage]:
    """The images that can be prefetched: those with a digest, from the market or a registry."""
    wanted = [
        WantedImage(image.image, image.digest, _SOURCES.get(image.source, ImageSource.UNKNOWN), image.account)
        for image in request.images
    ]
    return [one for one in wanted if one.digest and one.source in (ImageSource.MARKET, ImageSource.REGISTRY)]


def engine_image(image: EngineImage, *, ours: bool, show_names: bool) -> rm.EngineImage:
    """``show_names``: whether to name images that Headway did not fetch."""
    shown = ours or show_names
    return rm.EngineImage(
        id=image.id,
        names=[valid_text(name) for name in image.names] if shown else (),
        repo_digests=[valid_text(name) for name in image.repo_digests] if shown else (),
        bytes=image.size_bytes,
        ours=ours,
    )


def stored_launch(data: bytes) -> LaunchAttempt:
    """The launch of a stored LaunchAttempt message."""
    return launch(pb.LaunchAttempt.FromString(data))


def stop_word(text: str) -> StopWord:
    """The stop word. An unknown one of a newer TaskManager counts as PLATFORM."""
    try:
        return StopWord(text)
    except ValueError:
        return StopWord.PLATFORM


def extend_orders(messages: Iterable[tm.ExtendOrder]) -> list[ExtendAttempt]:
    """Orders to let attempts run longer."""
    return [
        ExtendAttempt(
            convert.attempt_id(message.attempt),
            message.timeout_s,
            tuple(Extension(one.by, one.seconds, one.forced) for one in message.extensions),
        )
        for message in messages
    ]


def report(
    record: AttemptRecord,
    kind: str,
    *,
    node_id: str,
    incarnation: int,
    at: float,
    generation: int = 0,
    decision: EndDecision | None = None,
    notice: str = "",
    **measured: Any,
) -> tm.AttemptReport:
    """All that is known of an attempt. A later report holds all facts of earlier ones, so it replaces them.

    ``measured`` are more facts of the table (``headway.model.attempt_facts``), by their names in a report, and ``use``.
    """
    times = record.times
    message = tm.AttemptReport(
        attempt=convert.attempt_to_pb(record.attempt),
        node_id=node_id,
        incarnation=incarnation,
        kind=kind,
        at=at,
        generation=generation,
        container_id=valid_text(record.container_id),
        image_id=valid_text(record.image_id),
        timeout_s=record.counted_s,
        accepted_at=times.accepted_at,
        container_started_at=times.container_started_at,
        process_started_at=times.process_started_at,
        ended_at=times.ended_at,
        run_s=times.run_s,
        notice=valid_text(notice),
        **measured,
    )
    if decision is not None:
        message.reason.CopyFrom(convert.end_reason_to_pb(decision.reason))
        message.warnings.extend(valid_text(warning) for warning in decision.warnings)
        message.retry_elsewhere = decision.elsewhere
        message.engine_away = decision.engine_away
    return message


def late_warnings(record: AttemptRecord, *, node_id: str, incarnation: int) -> tm.LateWarnings:
    """What can't be done after the end, all that holds now."""
    return tm.LateWarnings(
        attempt=convert.attempt_to_pb(record.attempt),
        node_id=node_id,
        incarnation=incarnation,
        generation=record.generation,
        warnings=record.late.values(),
    )


def gpu(reading: GpuReading) -> rm.Gpu:
    return rm.Gpu(
        uuid=reading.uuid,
        model=valid_text(reading.model),
        memory_bytes=reading.memory_bytes,
        index=reading.index,
        pci_bus_id=reading.pci_bus_id,
        simulated=reading.simulated,
        sick=reading.sick,
        busy_outside=reading.busy_outside,
        note=valid_text(reading.note),
        fault=reading.fault,
        quarantined_since=reading.quarantined_since,
        parent_uuid=reading.parent_uuid,
        linked_uuids=reading.linked_uuids,
        shared=reading.shared,
        processes=[
            rm.GpuProcess(
                pid=one.pid,
                owner=valid_text(one.owner),
                command=valid_text(one.command),
                memory_used_bytes=one.memory_used_bytes,
            )
            for one in reading.processes[:_MAX_PROCESSES]
        ],
        **readings_of(reading),
    )


def live_attempt(record: AttemptRecord, launch: LaunchAttempt) -> tm.LiveAttempt:
    """An attempt as heartbeats tell of it."""
    return tm.LiveAttempt(
        attempt=convert.attempt_to_pb(record.attempt),
        generation=launch.generation,
        gpu_uuids=launch.gpu_uuids,
        placed_at=launch.placed_at,
        process_started_at=record.times.process_started_at,
        ended=record.stage is AttemptStage.ENDED,
    )


def stored_report(data: bytes) -> tm.AttemptReport:
    """The report of a stored message."""
    return tm.AttemptReport.FromString(data)


def has_good_end(record: AttemptRecord) -> bool:
    """Whether an attempt ended with success, and its report is still stored."""
    return record.end_report is not None and stored_report(record.end_report).kind == AttemptEventKind.SUCCEEDED
