"""Converts TaskManager's messages into its entities and events, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headway import fingerprint
from headway.errors import InvalidInput
from headway.ids import NodeId
from headway.model.attempt_facts import AttemptFacts, from_report, to_view
from headway.model.reasons import EndReason, EndWord
from headway.rpc import convert
from headway.rpc.v1 import common_pb2, job_manager_pb2, resource_manager_pb2, task_manager_pb2, worker_pb2
from headway.states import Admission, NodeHealth

from .engine.events import (
    AcceptedLaunch,
    AttemptReport,
    AttemptReports,
    CancelTask,
    EnqueueTask,
    ExtendOrder,
    HeartbeatReceived,
    HeldTask,
    HoldTask,
    LateWarnings,
    LiveAttempt,
    NodesChanged,
    RefusedLaunch,
    ReleaseTask,
    StopOrder,
    TaskCommand,
    TaskCommands,
)
from .engine.phases import phases_of
from .engine.turn import OutgoingTaskEvent
from .model import GPU_UNAVAILABLE, Attempt, Condition, Extension, Gpu, Node, Shape, Task
from .planning.image_forecast import ForecastImage
from .ports import LaunchOrder

# Tasks of a job are mostly alike: all tasks of a shape share one object.
_shapes: dict[Shape, Shape] = {}
_MOST_SHAPES = 10_000
_MOST_LIVE = 10_000  # of one machine; each is looked up


# -- from JobManager --------------------------------------------------------------------------------


def commands(request: task_manager_pb2.ApplyTaskCommandsRequest) -> TaskCommands:
    found = tuple(found for message in request.commands if (found := _command(message)) is not None)
    return TaskCommands(found, request.steady_boot_id, convert.finite(request.steady_now, "steady_now"))


def _command(message: task_manager_pb2.TaskCommand) -> TaskCommand | None:
    match message.WhichOneof("command"):
        case "enqueue":
            enqueue = message.enqueue
            suspect = NodeId(enqueue.told_node_id) if enqueue.told_node_id else None
            return EnqueueTask(task(enqueue, message.seq), enqueue.SerializeToString(), enqueue.lost, suspect)
        case "cancel":
            cancel = message.cancel
            return CancelTask(convert.task_id(cancel.task), cancel.generation, message.seq, cancel.by)
        case "hold":
            return HoldTask(convert.task_id(message.hold.task), message.hold.generation, message.seq)
        case "release":
            release = message.release
            ages_from = convert.finite(release.submitted_at, "submitted_at")
            return ReleaseTask(convert.task_id(release.task), release.generation, message.seq, ages_from)
    return None


def held_task(message: task_manager_pb2.HeldTask) -> HeldTask:
    return HeldTask(
        convert.task_id(message.task),
        message.generation,
        message.state,
        message.event_seq,
        message.attempt,
        message.node_id,
        message.held,
        message.seen,
    )


def task(message: task_manager_pb2.EnqueueTask, seq: int = 0) -> Task:
    """A task as JobManager hands it over."""
    spec = message.spec
    return Task(
        id=convert.task_id(message.task),
        generation=message.generation,
        owner=message.owner.name,
        job_name=message.job_name,
        priority=convert.PRIORITY_RANK[convert.priority(message.priority)],
        submitted_at=convert.finite(message.submitted_at, "submitted_at"),
        tail_timeout_s=convert.duration_s(message.tail_timeout_s, "tail_timeout_s"),
        shape=shape(
            spec.resources,
            architecture=spec.image_architecture,
            require_cuda=spec.image_require_cuda,
            digest=spec.image_digest,
            source=spec.image_source,
            ulimits=spec.ulimits,
            local=spec.local,
        ),
        timeout_s=convert.duration_s(spec.timeout_s, "timeout_s"),
        retries=spec.retries,
        grace_s=convert.duration_s(spec.grace_s, "grace_s"),
        held=message.held,
        command_seq=seq,
        attempt=message.told_attempt,
        event_seq=message.told_seq,
        prints=(
            fingerprint.command_print(message.owner.name, convert.kind_of(spec)),
            fingerprint.task_print(message.owner.name, message.task.name),
        ),
    )


def shape(
    message: common_pb2.Resources,
    *,
    architecture: str = "",
    require_cuda: str = "",
    digest: str = "",
    source: int = common_pb2.IMAGE_SOURCE_UNKNOWN,
    ulimits: Iterable[common_pb2.Ulimit] = (),
    local: common_pb2.LocalHold | None = None,
) -> Shape:
    """What a task and its image need of a node."""
    pinned = bool(digest) and source != common_pb2.IMAGE_SOURCE_UNKNOWN
    made = Shape(
        message.cpu_centi,
        message.memory_bytes,
        message.gpus,
        tuple(sorted(message.gpu_models)),
        message.gpu_memory_bytes,
        architecture,
        # An image that can use GPUs may also run without any.
        require_cuda if message.gpus or message.gpu_share_bytes else "",
        digest if pinned else "",
        pinned and source == common_pb2.IMAGE_SOURCE_ENGINE,
        tuple((one.name, one.hard) for one in ulimits),
        local.node_id if local is not None else "",
        tuple(sorted(local.gpu_uuids)) if local is not None else (),
        message.gpu_share_bytes,
    )
    if len(_shapes) >= _MOST_SHAPES:
        _shapes.clear()
    return _shapes.setdefault(made, made)


def outgoing_event(event: OutgoingTaskEvent) -> tuple[str, bytes]:
    """An event for JobManager's outbox: kind and message."""
    message = job_manager_pb2.TaskEvent(
        task=convert.task_to_pb(event.task_id),
        generation=event.generation,
        seq=event.seq,
        kind=event.kind.value,
        attempt=event.attempt,
        at=event.at,
        node_id=event.node_id,
        process_started_at=event.process_started_at,
        notice=event.notice,
    )
    if event.reason is not None:
        message.reason.CopyFrom(convert.end_reason_to_pb(event.reason))
    return event.kind.value, message.SerializeToString()


def task_events(payloads: Iterable[bytes]) -> job_manager_pb2.ReportTaskEventsRequest:
    return job_manager_pb2.ReportTaskEventsRequest(
        events=[job_manager_pb2.TaskEvent.FromString(payload) for payload in payloads]
    )


# -- from and to Workers ------------------------------------------------------------------------------


def reports(request: task_manager_pb2.ReportAttemptsRequest) -> AttemptReports:
    return AttemptReports(
        tuple(_report(message) for message in request.reports),
        tuple(_late_warnings(message) for message in request.late_warnings),
    )


def _report(message: task_manager_pb2.AttemptReport) -> AttemptReport:
    return AttemptReport(
        attempt=convert.attempt_id(message.attempt),
        node_id=NodeId(message.node_id),
        kind=message.kind,
        at=message.at,
        reason=_end_reason(message.reason) if message.HasField("reason") else None,
        elsewhere=message.retry_elsewhere,
        engine_away=message.engine_away,
        facts=AttemptFacts(**from_report(message)),
        generation=message.generation,
        use=message.use.SerializeToString() if message.HasField("use") else b"",
        notice=message.notice,
    )


def _late_warnings(message: task_manager_pb2.LateWarnings) -> LateWarnings:
    return LateWarnings(
        attempt=convert.attempt_id(message.attempt),
        node_id=NodeId(message.node_id),
        incarnation=message.incarnation,
        generation=message.generation,
        warnings=tuple(message.warnings),
    )


def _end_reason(message: common_pb2.EndReason) -> EndReason:
    try:
        return convert.end_reason(message)
    except ValueError:
        # The Worker has a newer version: the end is a fact, but its word is unknown here.
        return EndReason(EndWord.PLATFORM_ERROR, detail=f"Its worker said: {message.word}. {message.detail}".strip())


def heartbeat(request: task_manager_pb2.HeartbeatRequest) -> HeartbeatReceived:
    """
    Raises:
        InvalidInput: a time in it is none, or it lists far more attempts than a machine can have.
    """
    if max(len(request.live), len(request.attempts)) > _MOST_LIVE:
        raise InvalidInput(f"A machine lists {len(request.live)} attempts; {_MOST_LIVE} are allowed.")
    return HeartbeatReceived(
        node_id=NodeId(request.node_id),
        incarnation=request.incarnation,
        address=request.address,
        live=tuple(convert.attempt_id(message) for message in request.live),
        stopping=request.stopping,
        files_suspended=request.lease_suspended_ack,
        attempts=tuple(_live_attempt(message) for message in request.attempts),
        waiting_jobs=frozenset(request.waiting_jobs),
        waiting_known_s=request.waiting_known_s,
    )


def _live_attempt(message: task_manager_pb2.LiveAttempt) -> LiveAttempt:
    return LiveAttempt(
        convert.attempt_id(message.attempt),
        message.generation,
        tuple(message.gpu_uuids),
        convert.finite(message.placed_at, "placed_at"),
        convert.finite(message.process_started_at, "process_started_at")
        if message.HasField("process_started_at")
        else None,
        message.ended,
    )


def stop_orders(orders: Iterable[StopOrder]) -> list[task_manager_pb2.StopOrder]:
    return [
        task_manager_pb2.StopOrder(attempt=convert.attempt_to_pb(order.attempt), word=order.word) for order in orders
    ]


def extend_orders(orders: Iterable[ExtendOrder]) -> list[task_manager_pb2.ExtendOrder]:
    return [
        task_manager_pb2.ExtendOrder(
            attempt=convert.attempt_to_pb(order.attempt),
            timeout_s=order.timeout_s,
            extensions=[extension(one) for one in order.extensions],
        )
        for order in orders
    ]


def extension(one: Extension) -> task_manager_pb2.Extension:
    return task_manager_pb2.Extension(
        at=one.at, by=one.by, seconds=one.seconds, forced=one.forced, request_id=one.request_id
    )


def launch_request(launches: Sequence[LaunchOrder]) -> worker_pb2.LaunchRequest:
    request = worker_pb2.LaunchRequest()
    for launch in launches:
        attempt = launch.attempt
        sent = task_manager_pb2.EnqueueTask.FromString(launch.spec)
        request.launches.append(
            worker_pb2.LaunchAttempt(
                attempt=convert.attempt_to_pb(attempt.id),
                generation=attempt.generation,
                owner=sent.owner,
                job_name=sent.job_name,
                spec=sent.spec,
                gpu_uuids=attempt.gpu_uuids,
                placed_at=attempt.placed_at,
                incarnation=attempt.incarnation,
                lease_s=launch.lease_s,
                lease_enforced=launch.lease_enforced,
            )
        )
    return request


def wanted_image(enqueue: bytes) -> ForecastImage | None:
    """The image of a task (a serialised EnqueueTask), if a Worker can prefetch it."""
    message = task_manager_pb2.EnqueueTask.FromString(enqueue)
    spec = message.spec
    if not spec.image_digest or spec.image_source == common_pb2.IMAGE_SOURCE_ENGINE:
        return None
    # A digest without a source is from a registry that was not asked. It may exist there; the start asks for it.
    source = spec.image_source or common_pb2.IMAGE_SOURCE_REGISTRY
    return ForecastImage(spec.image, spec.image_digest, source, message.owner.name)


def secrets_of(enqueue: bytes) -> list[str]:
    """Names of the secrets that a task (a serialised EnqueueTask) is given."""
    spec = task_manager_pb2.EnqueueTask.FromString(enqueue).spec
    return list(dict.fromkeys(use.name for use in spec.secrets))


def prepare_request(images: Iterable[ForecastImage]) -> worker_pb2.PrepareImagesRequest:
    request = worker_pb2.PrepareImagesRequest()
    for image in images:
        request.images.add(
            image=image.name,
            digest=image.digest,
            source=common_pb2.ImageSource.ValueType(image.source),
            account=image.account,
        )
    return request


def verdicts(reply: worker_pb2.LaunchReply) -> list[AcceptedLaunch | RefusedLaunch]:
    found: list[AcceptedLaunch | RefusedLaunch] = []
    for verdict in reply.verdicts:
        attempt = convert.attempt_id(verdict.attempt)
        if verdict.accepted:
            found.append(AcceptedLaunch(attempt, verdict.accepted_at or None))
        else:
            found.append(RefusedLaunch(attempt, verdict.slug, verdict.sentence, verdict.again_later))
    return found


# -- from ResourceManager ---------------------------------------------------------------------------


def nodes_changed(message: resource_manager_pb2.NodesChanged) -> NodesChanged:
    return NodesChanged(
        message.reset, tuple(node(n) for n in message.nodes), tuple(NodeId(node_id) for node_id in message.removed)
    )


def _gpu(message: resource_manager_pb2.Gpu) -> Gpu:
    return Gpu(
        message.uuid,
        message.model,
        message.memory_bytes,
        message.index,
        message.sick,
        message.busy_outside,
        message.fault,
        message.note if message.busy_outside else "",
        message.shared,
    )


def node(message: resource_manager_pb2.Node) -> Node:
    """A node without its readings. An unknown word of a newer version counts as a state that takes no work."""
    capacity = message.status.capacity
    return Node(
        id=NodeId(message.id),
        incarnation=message.incarnation,
        address=message.address,
        health=NodeHealth(message.health) if message.health in _HEALTHS else NodeHealth.DOWN,
        admission=Admission(message.admission) if message.admission in _ADMISSIONS else Admission.CORDONED,
        cpu_centi=capacity.cpu_centi,
        memory_bytes=capacity.memory_bytes,
        gpus=tuple(_gpu(gpu) for gpu in capacity.gpus),
        conditions=tuple(
            Condition(c.word, c.sentence, c.blocks_work)
            for c in message.status.conditions
            if c.blocks_work or c.word == GPU_UNAVAILABLE
        ),
        architecture=capacity.architecture,
        driver_version=capacity.driver_version,
        most_ulimits=tuple((one.name, one.hard) for one in capacity.most_ulimits),
        cuda_version=capacity.cuda_version,
        images=frozenset(_digests(message.status.engine_images)),
        drain_until_at=message.drain.until_at,
        drain_note=message.note if message.drain.until_at else "",
    )


def _digests(images: Iterable[resource_manager_pb2.EngineImage]) -> Iterable[str]:
    for image in images:
        yield image.id
        for name in image.repo_digests:
            yield name.partition("@")[2]


_HEALTHS = frozenset(health.value for health in NodeHealth)
_ADMISSIONS = frozenset(admission.value for admission in Admission)


# -- for pages and clients -----------------------------------------------------------------------------


def deadline(attempt: Attempt) -> float | None:
    """When the timeout ends its process; None: the process has not started."""
    return None if attempt.started_at is None else attempt.started_at + attempt.timeout_s


def attempt_view(attempt: Attempt, sentence: str = "", warning: str = "") -> task_manager_pb2.AttemptView:
    """``sentence`` is about an attempt that has not ended; ``warning`` is of its node, for as long as it lives."""
    times = phases_of(attempt)
    view = task_manager_pb2.AttemptView(
        attempt=convert.attempt_to_pb(attempt.id),
        state=attempt.state.value,
        generation=attempt.generation,
        node_id=attempt.node_id,
        gpu_uuids=attempt.gpu_uuids,
        sentence=attempt.reason.sentence if attempt.reason is not None else sentence,
        placed_at=attempt.placed_at,
        deadline=deadline(attempt),
        phases=common_pb2.Phases(
            scheduling_s=times.scheduling_s,
            dispatch_s=times.dispatch_s,
            startup_s=times.startup_s,
            preparing_s=times.preparing_s,
            running_s=times.running_s,
        ),
        of_runs=attempt.of_runs,
        timeout_s=attempt.timeout_s,
        extensions=[extension(one) for one in attempt.extensions],
        extension_pending=attempt.extension_pending,
        owner=attempt.owner,
        **to_view(attempt),
    )
    view.warnings.extend(attempt.late_warnings)
    if warning:
        view.warnings.append(warning)
    if attempt.use and not attempt.live:
        view.use.ParseFromString(attempt.use)
    if attempt.reason is not None:
        view.reason.CopyFrom(convert.end_reason_to_pb(attempt.reason))
    return view


def gpu_share(attempt: Attempt, card: Gpu | None, others: Iterable[Task]) -> task_manager_pb2.GpuShare:
    """The share of an attempt, with those who have one of the same card. ``card`` None: not known."""
    share = task_manager_pb2.GpuShare(
        bytes=attempt.shape.gpu_share_bytes, gpu_index=None if card is None else card.index
    )
    for task in others:
        share.others.add(
            task=convert.task_to_pb(task.id),
            job_name=task.job_name,
            owner=task.owner,
            bytes=task.shape.gpu_share_bytes,
        )
    return share


def resources(shape_: Shape) -> common_pb2.Resources:
    return common_pb2.Resources(
        cpu_centi=shape_.cpu_centi,
        memory_bytes=shape_.memory_bytes,
        gpus=shape_.gpus,
        gpu_models=shape_.gpu_models,
        gpu_memory_bytes=shape_.gpu_memory_bytes,
        gpu_share_bytes=shape_.gpu_share_bytes,
    )
