from headway.rpc.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EnqueueTask(_message.Message):
    __slots__ = ("task", "generation", "owner", "job_name", "priority", "submitted_at", "tail_timeout_s", "spec", "held", "lost", "told_seq", "told_attempt", "told_node_id")
    TASK_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    TAIL_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    TOLD_SEQ_FIELD_NUMBER: _ClassVar[int]
    TOLD_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TOLD_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.Task
    generation: int
    owner: _common_pb2.Account
    job_name: str
    priority: _common_pb2.Priority
    submitted_at: float
    tail_timeout_s: float
    spec: _common_pb2.TaskSpec
    held: bool
    lost: bool
    told_seq: int
    told_attempt: int
    told_node_id: str
    def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., generation: _Optional[int] = ..., owner: _Optional[_Union[_common_pb2.Account, _Mapping]] = ..., job_name: _Optional[str] = ..., priority: _Optional[_Union[_common_pb2.Priority, str]] = ..., submitted_at: _Optional[float] = ..., tail_timeout_s: _Optional[float] = ..., spec: _Optional[_Union[_common_pb2.TaskSpec, _Mapping]] = ..., held: _Optional[bool] = ..., lost: _Optional[bool] = ..., told_seq: _Optional[int] = ..., told_attempt: _Optional[int] = ..., told_node_id: _Optional[str] = ...) -> None: ...

class CancelTask(_message.Message):
    __slots__ = ("task", "generation", "by")
    TASK_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.Task
    generation: int
    by: str
    def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., generation: _Optional[int] = ..., by: _Optional[str] = ...) -> None: ...

class HoldTask(_message.Message):
    __slots__ = ("task", "generation")
    TASK_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.Task
    generation: int
    def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., generation: _Optional[int] = ...) -> None: ...

class ReleaseTask(_message.Message):
    __slots__ = ("task", "generation", "submitted_at")
    TASK_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.Task
    generation: int
    submitted_at: float
    def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., generation: _Optional[int] = ..., submitted_at: _Optional[float] = ...) -> None: ...

class TaskCommand(_message.Message):
    __slots__ = ("seq", "enqueue", "cancel", "hold", "release")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    enqueue: EnqueueTask
    cancel: CancelTask
    hold: HoldTask
    release: ReleaseTask
    def __init__(self, seq: _Optional[int] = ..., enqueue: _Optional[_Union[EnqueueTask, _Mapping]] = ..., cancel: _Optional[_Union[CancelTask, _Mapping]] = ..., hold: _Optional[_Union[HoldTask, _Mapping]] = ..., release: _Optional[_Union[ReleaseTask, _Mapping]] = ...) -> None: ...

class ApplyTaskCommandsRequest(_message.Message):
    __slots__ = ("commands", "steady_boot_id", "steady_now")
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    STEADY_BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    STEADY_NOW_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[TaskCommand]
    steady_boot_id: str
    steady_now: float
    def __init__(self, commands: _Optional[_Iterable[_Union[TaskCommand, _Mapping]]] = ..., steady_boot_id: _Optional[str] = ..., steady_now: _Optional[float] = ...) -> None: ...

class ApplyTaskCommandsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HeldTask(_message.Message):
    __slots__ = ("task", "generation", "state", "event_seq", "attempt", "node_id", "held", "seen")
    TASK_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EVENT_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.Task
    generation: int
    state: str
    event_seq: int
    attempt: int
    node_id: str
    held: bool
    seen: str
    def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., generation: _Optional[int] = ..., state: _Optional[str] = ..., event_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., node_id: _Optional[str] = ..., held: _Optional[bool] = ..., seen: _Optional[str] = ...) -> None: ...

class CompareTasksRequest(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[HeldTask]
    def __init__(self, tasks: _Optional[_Iterable[_Union[HeldTask, _Mapping]]] = ...) -> None: ...

class CompareTasksReply(_message.Message):
    __slots__ = ("differences", "command_seq")
    class Difference(_message.Message):
        __slots__ = ("task", "word", "generation", "mended")
        TASK_FIELD_NUMBER: _ClassVar[int]
        WORD_FIELD_NUMBER: _ClassVar[int]
        GENERATION_FIELD_NUMBER: _ClassVar[int]
        MENDED_FIELD_NUMBER: _ClassVar[int]
        task: _common_pb2.Task
        word: str
        generation: int
        mended: bool
        def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., word: _Optional[str] = ..., generation: _Optional[int] = ..., mended: _Optional[bool] = ...) -> None: ...
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    COMMAND_SEQ_FIELD_NUMBER: _ClassVar[int]
    differences: _containers.RepeatedCompositeFieldContainer[CompareTasksReply.Difference]
    command_seq: int
    def __init__(self, differences: _Optional[_Iterable[_Union[CompareTasksReply.Difference, _Mapping]]] = ..., command_seq: _Optional[int] = ...) -> None: ...

class ConfirmTasksRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConfirmTasksReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckResourcesRequest(_message.Message):
    __slots__ = ("shapes",)
    class Shape(_message.Message):
        __slots__ = ("resources", "timeout_s", "image_architecture", "image_require_cuda", "ulimits")
        RESOURCES_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
        IMAGE_ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
        IMAGE_REQUIRE_CUDA_FIELD_NUMBER: _ClassVar[int]
        ULIMITS_FIELD_NUMBER: _ClassVar[int]
        resources: _common_pb2.Resources
        timeout_s: float
        image_architecture: str
        image_require_cuda: str
        ulimits: _containers.RepeatedCompositeFieldContainer[_common_pb2.Ulimit]
        def __init__(self, resources: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ..., timeout_s: _Optional[float] = ..., image_architecture: _Optional[str] = ..., image_require_cuda: _Optional[str] = ..., ulimits: _Optional[_Iterable[_Union[_common_pb2.Ulimit, _Mapping]]] = ...) -> None: ...
    SHAPES_FIELD_NUMBER: _ClassVar[int]
    shapes: _containers.RepeatedCompositeFieldContainer[CheckResourcesRequest.Shape]
    def __init__(self, shapes: _Optional[_Iterable[_Union[CheckResourcesRequest.Shape, _Mapping]]] = ...) -> None: ...

class CheckResourcesReply(_message.Message):
    __slots__ = ("verdicts", "nodes_known")
    class Refusal(_message.Message):
        __slots__ = ("field", "sentence", "for_ever")
        FIELD_FIELD_NUMBER: _ClassVar[int]
        SENTENCE_FIELD_NUMBER: _ClassVar[int]
        FOR_EVER_FIELD_NUMBER: _ClassVar[int]
        field: str
        sentence: str
        for_ever: bool
        def __init__(self, field: _Optional[str] = ..., sentence: _Optional[str] = ..., for_ever: _Optional[bool] = ...) -> None: ...
    class Verdict(_message.Message):
        __slots__ = ("refusals", "waits")
        REFUSALS_FIELD_NUMBER: _ClassVar[int]
        WAITS_FIELD_NUMBER: _ClassVar[int]
        refusals: _containers.RepeatedCompositeFieldContainer[CheckResourcesReply.Refusal]
        waits: str
        def __init__(self, refusals: _Optional[_Iterable[_Union[CheckResourcesReply.Refusal, _Mapping]]] = ..., waits: _Optional[str] = ...) -> None: ...
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    NODES_KNOWN_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedCompositeFieldContainer[CheckResourcesReply.Verdict]
    nodes_known: int
    def __init__(self, verdicts: _Optional[_Iterable[_Union[CheckResourcesReply.Verdict, _Mapping]]] = ..., nodes_known: _Optional[int] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("node_id", "incarnation", "address", "live", "sent_monotonic_s", "stopping", "lease_suspended_ack", "attempts", "waiting_jobs", "waiting_known_s")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    SENT_MONOTONIC_S_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    LEASE_SUSPENDED_ACK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    WAITING_JOBS_FIELD_NUMBER: _ClassVar[int]
    WAITING_KNOWN_S_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: int
    address: str
    live: _containers.RepeatedCompositeFieldContainer[_common_pb2.Attempt]
    sent_monotonic_s: float
    stopping: bool
    lease_suspended_ack: bool
    attempts: _containers.RepeatedCompositeFieldContainer[LiveAttempt]
    waiting_jobs: _containers.RepeatedScalarFieldContainer[str]
    waiting_known_s: float
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., address: _Optional[str] = ..., live: _Optional[_Iterable[_Union[_common_pb2.Attempt, _Mapping]]] = ..., sent_monotonic_s: _Optional[float] = ..., stopping: _Optional[bool] = ..., lease_suspended_ack: _Optional[bool] = ..., attempts: _Optional[_Iterable[_Union[LiveAttempt, _Mapping]]] = ..., waiting_jobs: _Optional[_Iterable[str]] = ..., waiting_known_s: _Optional[float] = ...) -> None: ...

class LiveAttempt(_message.Message):
    __slots__ = ("attempt", "generation", "gpu_uuids", "placed_at", "process_started_at", "ended")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    GPU_UUIDS_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_FIELD_NUMBER: _ClassVar[int]
    PROCESS_STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    generation: int
    gpu_uuids: _containers.RepeatedScalarFieldContainer[str]
    placed_at: float
    process_started_at: float
    ended: bool
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., generation: _Optional[int] = ..., gpu_uuids: _Optional[_Iterable[str]] = ..., placed_at: _Optional[float] = ..., process_started_at: _Optional[float] = ..., ended: _Optional[bool] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("lease_s", "lease_enforced", "discard", "stop", "sent_monotonic_s", "extend")
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    LEASE_ENFORCED_FIELD_NUMBER: _ClassVar[int]
    DISCARD_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    SENT_MONOTONIC_S_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    lease_s: float
    lease_enforced: bool
    discard: _containers.RepeatedCompositeFieldContainer[_common_pb2.Attempt]
    stop: _containers.RepeatedCompositeFieldContainer[StopOrder]
    sent_monotonic_s: float
    extend: _containers.RepeatedCompositeFieldContainer[ExtendOrder]
    def __init__(self, lease_s: _Optional[float] = ..., lease_enforced: _Optional[bool] = ..., discard: _Optional[_Iterable[_Union[_common_pb2.Attempt, _Mapping]]] = ..., stop: _Optional[_Iterable[_Union[StopOrder, _Mapping]]] = ..., sent_monotonic_s: _Optional[float] = ..., extend: _Optional[_Iterable[_Union[ExtendOrder, _Mapping]]] = ...) -> None: ...

class StopOrder(_message.Message):
    __slots__ = ("attempt", "word")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORD_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    word: str
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., word: _Optional[str] = ...) -> None: ...

class Extension(_message.Message):
    __slots__ = ("at", "by", "seconds", "forced", "request_id")
    AT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    at: float
    by: str
    seconds: float
    forced: bool
    request_id: str
    def __init__(self, at: _Optional[float] = ..., by: _Optional[str] = ..., seconds: _Optional[float] = ..., forced: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class ExtendOrder(_message.Message):
    __slots__ = ("attempt", "timeout_s", "extensions")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    timeout_s: float
    extensions: _containers.RepeatedCompositeFieldContainer[Extension]
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., timeout_s: _Optional[float] = ..., extensions: _Optional[_Iterable[_Union[Extension, _Mapping]]] = ...) -> None: ...

class AttemptReport(_message.Message):
    __slots__ = ("attempt", "node_id", "incarnation", "kind", "at", "reason", "container_id", "image_id", "accepted_at", "container_started_at", "process_started_at", "ended_at", "run_s", "peak_memory_bytes", "stdout_bytes", "stderr_bytes", "dropped_bytes", "warnings", "retry_elsewhere", "timeout_s", "generation", "engine_away", "use", "notice")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_ID_FIELD_NUMBER: _ClassVar[int]
    IMAGE_ID_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    PROCESS_STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    RUN_S_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDOUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDERR_BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    RETRY_ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ENGINE_AWAY_FIELD_NUMBER: _ClassVar[int]
    USE_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    node_id: str
    incarnation: int
    kind: str
    at: float
    reason: _common_pb2.EndReason
    container_id: str
    image_id: str
    accepted_at: float
    container_started_at: float
    process_started_at: float
    ended_at: float
    run_s: float
    peak_memory_bytes: int
    stdout_bytes: int
    stderr_bytes: int
    dropped_bytes: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    retry_elsewhere: bool
    timeout_s: float
    generation: int
    engine_away: bool
    use: AttemptUse
    notice: str
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., kind: _Optional[str] = ..., at: _Optional[float] = ..., reason: _Optional[_Union[_common_pb2.EndReason, _Mapping]] = ..., container_id: _Optional[str] = ..., image_id: _Optional[str] = ..., accepted_at: _Optional[float] = ..., container_started_at: _Optional[float] = ..., process_started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., run_s: _Optional[float] = ..., peak_memory_bytes: _Optional[int] = ..., stdout_bytes: _Optional[int] = ..., stderr_bytes: _Optional[int] = ..., dropped_bytes: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ..., retry_elsewhere: _Optional[bool] = ..., timeout_s: _Optional[float] = ..., generation: _Optional[int] = ..., engine_away: _Optional[bool] = ..., use: _Optional[_Union[AttemptUse, _Mapping]] = ..., notice: _Optional[str] = ...) -> None: ...

class AttemptUse(_message.Message):
    __slots__ = ("measured_s", "cpu_s", "disk_read_bytes", "disk_written_bytes", "network_received_bytes", "network_sent_bytes", "gpus")
    MEASURED_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    DISK_READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_WRITTEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    NETWORK_RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    NETWORK_SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    measured_s: float
    cpu_s: float
    disk_read_bytes: int
    disk_written_bytes: int
    network_received_bytes: int
    network_sent_bytes: int
    gpus: _containers.RepeatedCompositeFieldContainer[GpuUse]
    def __init__(self, measured_s: _Optional[float] = ..., cpu_s: _Optional[float] = ..., disk_read_bytes: _Optional[int] = ..., disk_written_bytes: _Optional[int] = ..., network_received_bytes: _Optional[int] = ..., network_sent_bytes: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[GpuUse, _Mapping]]] = ...) -> None: ...

class GpuUse(_message.Message):
    __slots__ = ("uuid", "measured_s", "mean_utilisation", "peak_memory_used_bytes", "energy_j", "idle_s", "model", "memory_bytes")
    UUID_FIELD_NUMBER: _ClassVar[int]
    MEASURED_S_FIELD_NUMBER: _ClassVar[int]
    MEAN_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    ENERGY_J_FIELD_NUMBER: _ClassVar[int]
    IDLE_S_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    measured_s: float
    mean_utilisation: float
    peak_memory_used_bytes: int
    energy_j: float
    idle_s: float
    model: str
    memory_bytes: int
    def __init__(self, uuid: _Optional[str] = ..., measured_s: _Optional[float] = ..., mean_utilisation: _Optional[float] = ..., peak_memory_used_bytes: _Optional[int] = ..., energy_j: _Optional[float] = ..., idle_s: _Optional[float] = ..., model: _Optional[str] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class LateWarnings(_message.Message):
    __slots__ = ("attempt", "node_id", "incarnation", "generation", "warnings")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    node_id: str
    incarnation: int
    generation: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., generation: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ReportAttemptsRequest(_message.Message):
    __slots__ = ("reports", "late_warnings")
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    LATE_WARNINGS_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[AttemptReport]
    late_warnings: _containers.RepeatedCompositeFieldContainer[LateWarnings]
    def __init__(self, reports: _Optional[_Iterable[_Union[AttemptReport, _Mapping]]] = ..., late_warnings: _Optional[_Iterable[_Union[LateWarnings, _Mapping]]] = ...) -> None: ...

class ReportAttemptsReply(_message.Message):
    __slots__ = ("discard",)
    DISCARD_FIELD_NUMBER: _ClassVar[int]
    discard: _containers.RepeatedCompositeFieldContainer[_common_pb2.Attempt]
    def __init__(self, discard: _Optional[_Iterable[_Union[_common_pb2.Attempt, _Mapping]]] = ...) -> None: ...

class HasWorkRequest(_message.Message):
    __slots__ = ("node_id", "account", "attempt")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    account: str
    attempt: _common_pb2.Attempt
    def __init__(self, node_id: _Optional[str] = ..., account: _Optional[str] = ..., attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ...) -> None: ...

class HasWorkReply(_message.Message):
    __slots__ = ("has",)
    HAS_FIELD_NUMBER: _ClassVar[int]
    has: bool
    def __init__(self, has: _Optional[bool] = ...) -> None: ...

class AttemptView(_message.Message):
    __slots__ = ("attempt", "state", "generation", "node_id", "gpu_uuids", "reason", "sentence", "placed_at", "accepted_at", "container_started_at", "started_at", "ended_at", "deadline", "phases", "peak_memory_bytes", "stdout_bytes", "stderr_bytes", "dropped_bytes", "image_id", "warnings", "of_runs", "timeout_s", "extensions", "extension_pending", "owner", "use", "share")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    GPU_UUIDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDOUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDERR_BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    IMAGE_ID_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    OF_RUNS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    EXTENSION_PENDING_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    USE_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    state: str
    generation: int
    node_id: str
    gpu_uuids: _containers.RepeatedScalarFieldContainer[str]
    reason: _common_pb2.EndReason
    sentence: str
    placed_at: float
    accepted_at: float
    container_started_at: float
    started_at: float
    ended_at: float
    deadline: float
    phases: _common_pb2.Phases
    peak_memory_bytes: int
    stdout_bytes: int
    stderr_bytes: int
    dropped_bytes: int
    image_id: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    of_runs: int
    timeout_s: float
    extensions: _containers.RepeatedCompositeFieldContainer[Extension]
    extension_pending: bool
    owner: str
    use: AttemptUse
    share: GpuShare
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., state: _Optional[str] = ..., generation: _Optional[int] = ..., node_id: _Optional[str] = ..., gpu_uuids: _Optional[_Iterable[str]] = ..., reason: _Optional[_Union[_common_pb2.EndReason, _Mapping]] = ..., sentence: _Optional[str] = ..., placed_at: _Optional[float] = ..., accepted_at: _Optional[float] = ..., container_started_at: _Optional[float] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., deadline: _Optional[float] = ..., phases: _Optional[_Union[_common_pb2.Phases, _Mapping]] = ..., peak_memory_bytes: _Optional[int] = ..., stdout_bytes: _Optional[int] = ..., stderr_bytes: _Optional[int] = ..., dropped_bytes: _Optional[int] = ..., image_id: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ..., of_runs: _Optional[int] = ..., timeout_s: _Optional[float] = ..., extensions: _Optional[_Iterable[_Union[Extension, _Mapping]]] = ..., extension_pending: _Optional[bool] = ..., owner: _Optional[str] = ..., use: _Optional[_Union[AttemptUse, _Mapping]] = ..., share: _Optional[_Union[GpuShare, _Mapping]] = ...) -> None: ...

class GpuShare(_message.Message):
    __slots__ = ("bytes", "gpu_index", "others")
    class Sharer(_message.Message):
        __slots__ = ("task", "job_name", "owner", "bytes")
        TASK_FIELD_NUMBER: _ClassVar[int]
        JOB_NAME_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        task: _common_pb2.Task
        job_name: str
        owner: str
        bytes: int
        def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., job_name: _Optional[str] = ..., owner: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...
    BYTES_FIELD_NUMBER: _ClassVar[int]
    GPU_INDEX_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    gpu_index: int
    others: _containers.RepeatedCompositeFieldContainer[GpuShare.Sharer]
    def __init__(self, bytes: _Optional[int] = ..., gpu_index: _Optional[int] = ..., others: _Optional[_Iterable[_Union[GpuShare.Sharer, _Mapping]]] = ...) -> None: ...

class ListAttemptsRequest(_message.Message):
    __slots__ = ("job_id", "tasks")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    tasks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., tasks: _Optional[_Iterable[str]] = ...) -> None: ...

class ListAttemptsReply(_message.Message):
    __slots__ = ("attempts",)
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptView]
    def __init__(self, attempts: _Optional[_Iterable[_Union[AttemptView, _Mapping]]] = ...) -> None: ...

class QueueEntry(_message.Message):
    __slots__ = ("task", "owner", "job_name", "position", "resources", "timeout_s", "submitted_at", "priority", "terms", "estimated_start", "promised_start", "reasons", "held", "attempt", "state", "estimate_rough", "first_promised_start")
    class TermsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    TASK_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_START_FIELD_NUMBER: _ClassVar[int]
    PROMISED_START_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ESTIMATE_ROUGH_FIELD_NUMBER: _ClassVar[int]
    FIRST_PROMISED_START_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.Task
    owner: str
    job_name: str
    position: int
    resources: _common_pb2.Resources
    timeout_s: float
    submitted_at: float
    priority: _common_pb2.Priority
    terms: _containers.ScalarMap[str, float]
    estimated_start: float
    promised_start: float
    reasons: _containers.RepeatedCompositeFieldContainer[_common_pb2.WaitReason]
    held: bool
    attempt: int
    state: str
    estimate_rough: bool
    first_promised_start: float
    def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., owner: _Optional[str] = ..., job_name: _Optional[str] = ..., position: _Optional[int] = ..., resources: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ..., timeout_s: _Optional[float] = ..., submitted_at: _Optional[float] = ..., priority: _Optional[_Union[_common_pb2.Priority, str]] = ..., terms: _Optional[_Mapping[str, float]] = ..., estimated_start: _Optional[float] = ..., promised_start: _Optional[float] = ..., reasons: _Optional[_Iterable[_Union[_common_pb2.WaitReason, _Mapping]]] = ..., held: _Optional[bool] = ..., attempt: _Optional[int] = ..., state: _Optional[str] = ..., estimate_rough: _Optional[bool] = ..., first_promised_start: _Optional[float] = ...) -> None: ...

class GetQueueRequest(_message.Message):
    __slots__ = ("limit", "offset", "job_id", "tasks", "owner", "running_limit")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    RUNNING_LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    offset: int
    job_id: str
    tasks: _containers.RepeatedScalarFieldContainer[str]
    owner: str
    running_limit: int
    def __init__(self, limit: _Optional[int] = ..., offset: _Optional[int] = ..., job_id: _Optional[str] = ..., tasks: _Optional[_Iterable[str]] = ..., owner: _Optional[str] = ..., running_limit: _Optional[int] = ...) -> None: ...

class GetQueueReply(_message.Message):
    __slots__ = ("entries", "total_waiting", "total_running", "policy", "discipline", "scheduling", "total_matching", "running", "running_matching")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_WAITING_FIELD_NUMBER: _ClassVar[int]
    TOTAL_RUNNING_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    DISCIPLINE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULING_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MATCHING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_MATCHING_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[QueueEntry]
    total_waiting: int
    total_running: int
    policy: str
    discipline: str
    scheduling: Scheduling
    total_matching: int
    running: _containers.RepeatedCompositeFieldContainer[Booking]
    running_matching: int
    def __init__(self, entries: _Optional[_Iterable[_Union[QueueEntry, _Mapping]]] = ..., total_waiting: _Optional[int] = ..., total_running: _Optional[int] = ..., policy: _Optional[str] = ..., discipline: _Optional[str] = ..., scheduling: _Optional[_Union[Scheduling, _Mapping]] = ..., total_matching: _Optional[int] = ..., running: _Optional[_Iterable[_Union[Booking, _Mapping]]] = ..., running_matching: _Optional[int] = ...) -> None: ...

class Booking(_message.Message):
    __slots__ = ("attempt", "job_name", "owner", "priority", "node_id", "gpu_uuids", "resources", "state", "since", "started", "deadline", "ends_by", "overdue", "timeout_s")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    GPU_UUIDS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    ENDS_BY_FIELD_NUMBER: _ClassVar[int]
    OVERDUE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    job_name: str
    owner: str
    priority: _common_pb2.Priority
    node_id: str
    gpu_uuids: _containers.RepeatedScalarFieldContainer[str]
    resources: _common_pb2.Resources
    state: str
    since: float
    started: float
    deadline: float
    ends_by: float
    overdue: bool
    timeout_s: float
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., job_name: _Optional[str] = ..., owner: _Optional[str] = ..., priority: _Optional[_Union[_common_pb2.Priority, str]] = ..., node_id: _Optional[str] = ..., gpu_uuids: _Optional[_Iterable[str]] = ..., resources: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ..., state: _Optional[str] = ..., since: _Optional[float] = ..., started: _Optional[float] = ..., deadline: _Optional[float] = ..., ends_by: _Optional[float] = ..., overdue: _Optional[bool] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class ListBookingsRequest(_message.Message):
    __slots__ = ("gpus_only",)
    GPUS_ONLY_FIELD_NUMBER: _ClassVar[int]
    gpus_only: bool
    def __init__(self, gpus_only: _Optional[bool] = ...) -> None: ...

class ListBookingsReply(_message.Message):
    __slots__ = ("nodes", "bookings")
    class Node(_message.Message):
        __slots__ = ("node_id", "cpu_centi", "memory_bytes", "gpus", "tasks", "closed", "last_ends_by")
        NODE_ID_FIELD_NUMBER: _ClassVar[int]
        CPU_CENTI_FIELD_NUMBER: _ClassVar[int]
        MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
        GPUS_FIELD_NUMBER: _ClassVar[int]
        TASKS_FIELD_NUMBER: _ClassVar[int]
        CLOSED_FIELD_NUMBER: _ClassVar[int]
        LAST_ENDS_BY_FIELD_NUMBER: _ClassVar[int]
        node_id: str
        cpu_centi: int
        memory_bytes: int
        gpus: int
        tasks: int
        closed: str
        last_ends_by: float
        def __init__(self, node_id: _Optional[str] = ..., cpu_centi: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[int] = ..., tasks: _Optional[int] = ..., closed: _Optional[str] = ..., last_ends_by: _Optional[float] = ...) -> None: ...
    NODES_FIELD_NUMBER: _ClassVar[int]
    BOOKINGS_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[ListBookingsReply.Node]
    bookings: _containers.RepeatedCompositeFieldContainer[Booking]
    def __init__(self, nodes: _Optional[_Iterable[_Union[ListBookingsReply.Node, _Mapping]]] = ..., bookings: _Optional[_Iterable[_Union[Booking, _Mapping]]] = ...) -> None: ...

class PreviewDrainRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class PreviewDrainReply(_message.Message):
    __slots__ = ("running", "total_running", "stranded", "total_stranded")
    class Stranded(_message.Message):
        __slots__ = ("task", "owner", "job_name")
        TASK_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        JOB_NAME_FIELD_NUMBER: _ClassVar[int]
        task: _common_pb2.Task
        owner: str
        job_name: str
        def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., owner: _Optional[str] = ..., job_name: _Optional[str] = ...) -> None: ...
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    TOTAL_RUNNING_FIELD_NUMBER: _ClassVar[int]
    STRANDED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STRANDED_FIELD_NUMBER: _ClassVar[int]
    running: _containers.RepeatedCompositeFieldContainer[Booking]
    total_running: int
    stranded: _containers.RepeatedCompositeFieldContainer[PreviewDrainReply.Stranded]
    total_stranded: int
    def __init__(self, running: _Optional[_Iterable[_Union[Booking, _Mapping]]] = ..., total_running: _Optional[int] = ..., stranded: _Optional[_Iterable[_Union[PreviewDrainReply.Stranded, _Mapping]]] = ..., total_stranded: _Optional[int] = ...) -> None: ...

class Scheduling(_message.Message):
    __slots__ = ("policy", "discipline", "configured_policy", "configured_discipline", "policy_set_by", "policy_set_at", "discipline_set_by", "discipline_set_at", "failure", "contradictions", "promises", "promised", "slack_s", "growth_failure")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    DISCIPLINE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_POLICY_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_DISCIPLINE_FIELD_NUMBER: _ClassVar[int]
    POLICY_SET_BY_FIELD_NUMBER: _ClassVar[int]
    POLICY_SET_AT_FIELD_NUMBER: _ClassVar[int]
    DISCIPLINE_SET_BY_FIELD_NUMBER: _ClassVar[int]
    DISCIPLINE_SET_AT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    CONTRADICTIONS_FIELD_NUMBER: _ClassVar[int]
    PROMISES_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    SLACK_S_FIELD_NUMBER: _ClassVar[int]
    GROWTH_FAILURE_FIELD_NUMBER: _ClassVar[int]
    policy: str
    discipline: str
    configured_policy: str
    configured_discipline: str
    policy_set_by: str
    policy_set_at: float
    discipline_set_by: str
    discipline_set_at: float
    failure: str
    contradictions: _containers.RepeatedScalarFieldContainer[str]
    promises: str
    promised: int
    slack_s: float
    growth_failure: str
    def __init__(self, policy: _Optional[str] = ..., discipline: _Optional[str] = ..., configured_policy: _Optional[str] = ..., configured_discipline: _Optional[str] = ..., policy_set_by: _Optional[str] = ..., policy_set_at: _Optional[float] = ..., discipline_set_by: _Optional[str] = ..., discipline_set_at: _Optional[float] = ..., failure: _Optional[str] = ..., contradictions: _Optional[_Iterable[str]] = ..., promises: _Optional[str] = ..., promised: _Optional[int] = ..., slack_s: _Optional[float] = ..., growth_failure: _Optional[str] = ...) -> None: ...

class SetSchedulingRequest(_message.Message):
    __slots__ = ("policy", "discipline", "by")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    DISCIPLINE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    policy: str
    discipline: str
    by: str
    def __init__(self, policy: _Optional[str] = ..., discipline: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ListDecisionsRequest(_message.Message):
    __slots__ = ("task", "limit", "before")
    TASK_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.Task
    limit: int
    before: int
    def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., limit: _Optional[int] = ..., before: _Optional[int] = ...) -> None: ...

class ListDecisionsReply(_message.Message):
    __slots__ = ("passes", "next_before", "kept_days")
    class Started(_message.Message):
        __slots__ = ("task", "node_id", "gpu_uuids", "ahead", "sentence")
        TASK_FIELD_NUMBER: _ClassVar[int]
        NODE_ID_FIELD_NUMBER: _ClassVar[int]
        GPU_UUIDS_FIELD_NUMBER: _ClassVar[int]
        AHEAD_FIELD_NUMBER: _ClassVar[int]
        SENTENCE_FIELD_NUMBER: _ClassVar[int]
        task: _common_pb2.Task
        node_id: str
        gpu_uuids: _containers.RepeatedScalarFieldContainer[str]
        ahead: bool
        sentence: str
        def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., node_id: _Optional[str] = ..., gpu_uuids: _Optional[_Iterable[str]] = ..., ahead: _Optional[bool] = ..., sentence: _Optional[str] = ...) -> None: ...
    class Pass(_message.Message):
        __slots__ = ("id", "at", "policy", "discipline", "started", "started_in_all", "place", "key", "started_itself", "reasons", "reserved_start")
        ID_FIELD_NUMBER: _ClassVar[int]
        AT_FIELD_NUMBER: _ClassVar[int]
        POLICY_FIELD_NUMBER: _ClassVar[int]
        DISCIPLINE_FIELD_NUMBER: _ClassVar[int]
        STARTED_FIELD_NUMBER: _ClassVar[int]
        STARTED_IN_ALL_FIELD_NUMBER: _ClassVar[int]
        PLACE_FIELD_NUMBER: _ClassVar[int]
        KEY_FIELD_NUMBER: _ClassVar[int]
        STARTED_ITSELF_FIELD_NUMBER: _ClassVar[int]
        REASONS_FIELD_NUMBER: _ClassVar[int]
        RESERVED_START_FIELD_NUMBER: _ClassVar[int]
        id: int
        at: float
        policy: str
        discipline: str
        started: _containers.RepeatedCompositeFieldContainer[ListDecisionsReply.Started]
        started_in_all: int
        place: int
        key: float
        started_itself: bool
        reasons: _containers.RepeatedCompositeFieldContainer[_common_pb2.WaitReason]
        reserved_start: float
        def __init__(self, id: _Optional[int] = ..., at: _Optional[float] = ..., policy: _Optional[str] = ..., discipline: _Optional[str] = ..., started: _Optional[_Iterable[_Union[ListDecisionsReply.Started, _Mapping]]] = ..., started_in_all: _Optional[int] = ..., place: _Optional[int] = ..., key: _Optional[float] = ..., started_itself: _Optional[bool] = ..., reasons: _Optional[_Iterable[_Union[_common_pb2.WaitReason, _Mapping]]] = ..., reserved_start: _Optional[float] = ...) -> None: ...
    PASSES_FIELD_NUMBER: _ClassVar[int]
    NEXT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    KEPT_DAYS_FIELD_NUMBER: _ClassVar[int]
    passes: _containers.RepeatedCompositeFieldContainer[ListDecisionsReply.Pass]
    next_before: int
    kept_days: int
    def __init__(self, passes: _Optional[_Iterable[_Union[ListDecisionsReply.Pass, _Mapping]]] = ..., next_before: _Optional[int] = ..., kept_days: _Optional[int] = ...) -> None: ...

class ExplainTaskRequest(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.Task
    def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ...) -> None: ...

class LocateAttemptRequest(_message.Message):
    __slots__ = ("task", "number", "with_secrets")
    TASK_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WITH_SECRETS_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.Task
    number: int
    with_secrets: bool
    def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., number: _Optional[int] = ..., with_secrets: _Optional[bool] = ...) -> None: ...

class LocateAttemptReply(_message.Message):
    __slots__ = ("attempt", "worker_address", "secrets")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    attempt: AttemptView
    worker_address: str
    secrets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, attempt: _Optional[_Union[AttemptView, _Mapping]] = ..., worker_address: _Optional[str] = ..., secrets: _Optional[_Iterable[str]] = ...) -> None: ...

class WatchAttemptsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AttemptChanges(_message.Message):
    __slots__ = ("attempts", "queue_changed")
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptView]
    queue_changed: bool
    def __init__(self, attempts: _Optional[_Iterable[_Union[AttemptView, _Mapping]]] = ..., queue_changed: _Optional[bool] = ...) -> None: ...

class DeclareNodeLostRequest(_message.Message):
    __slots__ = ("node_id", "by")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    by: str
    def __init__(self, node_id: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class DeclareNodeLostReply(_message.Message):
    __slots__ = ("attempts_lost",)
    ATTEMPTS_LOST_FIELD_NUMBER: _ClassVar[int]
    attempts_lost: int
    def __init__(self, attempts_lost: _Optional[int] = ...) -> None: ...

class ExtendTaskRequest(_message.Message):
    __slots__ = ("task", "seconds", "by", "force", "request_id")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.Task
    seconds: float
    by: str
    force: bool
    request_id: str
    def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., seconds: _Optional[float] = ..., by: _Optional[str] = ..., force: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class ExtendTaskReply(_message.Message):
    __slots__ = ("attempt", "delivered", "sentence")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    attempt: AttemptView
    delivered: bool
    sentence: str
    def __init__(self, attempt: _Optional[_Union[AttemptView, _Mapping]] = ..., delivered: _Optional[bool] = ..., sentence: _Optional[str] = ...) -> None: ...

class SuggestTimeoutsRequest(_message.Message):
    __slots__ = ("asked",)
    class Asked(_message.Message):
        __slots__ = ("command_print", "task_print", "timeout_s")
        COMMAND_PRINT_FIELD_NUMBER: _ClassVar[int]
        TASK_PRINT_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
        command_print: int
        task_print: int
        timeout_s: float
        def __init__(self, command_print: _Optional[int] = ..., task_print: _Optional[int] = ..., timeout_s: _Optional[float] = ...) -> None: ...
    ASKED_FIELD_NUMBER: _ClassVar[int]
    asked: _containers.RepeatedCompositeFieldContainer[SuggestTimeoutsRequest.Asked]
    def __init__(self, asked: _Optional[_Iterable[_Union[SuggestTimeoutsRequest.Asked, _Mapping]]] = ...) -> None: ...

class SuggestTimeoutsReply(_message.Message):
    __slots__ = ("advice", "index")
    class Advice(_message.Message):
        __slots__ = ("basis", "suggested_timeout_s", "timeout_s", "succeeded", "timed_out", "shortest_s", "median_s", "longest_s", "killed_share", "asked_killed_share", "sentence")
        BASIS_FIELD_NUMBER: _ClassVar[int]
        SUGGESTED_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
        SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
        TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
        SHORTEST_S_FIELD_NUMBER: _ClassVar[int]
        MEDIAN_S_FIELD_NUMBER: _ClassVar[int]
        LONGEST_S_FIELD_NUMBER: _ClassVar[int]
        KILLED_SHARE_FIELD_NUMBER: _ClassVar[int]
        ASKED_KILLED_SHARE_FIELD_NUMBER: _ClassVar[int]
        SENTENCE_FIELD_NUMBER: _ClassVar[int]
        basis: str
        suggested_timeout_s: float
        timeout_s: float
        succeeded: int
        timed_out: int
        shortest_s: float
        median_s: float
        longest_s: float
        killed_share: float
        asked_killed_share: float
        sentence: str
        def __init__(self, basis: _Optional[str] = ..., suggested_timeout_s: _Optional[float] = ..., timeout_s: _Optional[float] = ..., succeeded: _Optional[int] = ..., timed_out: _Optional[int] = ..., shortest_s: _Optional[float] = ..., median_s: _Optional[float] = ..., longest_s: _Optional[float] = ..., killed_share: _Optional[float] = ..., asked_killed_share: _Optional[float] = ..., sentence: _Optional[str] = ...) -> None: ...
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    advice: _containers.RepeatedCompositeFieldContainer[SuggestTimeoutsReply.Advice]
    index: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, advice: _Optional[_Iterable[_Union[SuggestTimeoutsReply.Advice, _Mapping]]] = ..., index: _Optional[_Iterable[int]] = ...) -> None: ...

class PreviewQueueRequest(_message.Message):
    __slots__ = ("sets", "most", "allow_unsatisfiable")
    class Set(_message.Message):
        __slots__ = ("tasks",)
        TASKS_FIELD_NUMBER: _ClassVar[int]
        tasks: _containers.RepeatedCompositeFieldContainer[EnqueueTask]
        def __init__(self, tasks: _Optional[_Iterable[_Union[EnqueueTask, _Mapping]]] = ...) -> None: ...
    SETS_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    ALLOW_UNSATISFIABLE_FIELD_NUMBER: _ClassVar[int]
    sets: _containers.RepeatedCompositeFieldContainer[PreviewQueueRequest.Set]
    most: int
    allow_unsatisfiable: bool
    def __init__(self, sets: _Optional[_Iterable[_Union[PreviewQueueRequest.Set, _Mapping]]] = ..., most: _Optional[int] = ..., allow_unsatisfiable: _Optional[bool] = ...) -> None: ...

class PreviewQueueReply(_message.Message):
    __slots__ = ("sets", "at", "total_waiting", "total_running", "policy", "discipline")
    class Start(_message.Message):
        __slots__ = ("task", "position", "at_once", "estimated_start", "estimate_rough", "promised_start", "promise_from", "reasons", "refused", "sentence")
        TASK_FIELD_NUMBER: _ClassVar[int]
        POSITION_FIELD_NUMBER: _ClassVar[int]
        AT_ONCE_FIELD_NUMBER: _ClassVar[int]
        ESTIMATED_START_FIELD_NUMBER: _ClassVar[int]
        ESTIMATE_ROUGH_FIELD_NUMBER: _ClassVar[int]
        PROMISED_START_FIELD_NUMBER: _ClassVar[int]
        PROMISE_FROM_FIELD_NUMBER: _ClassVar[int]
        REASONS_FIELD_NUMBER: _ClassVar[int]
        REFUSED_FIELD_NUMBER: _ClassVar[int]
        SENTENCE_FIELD_NUMBER: _ClassVar[int]
        task: str
        position: int
        at_once: bool
        estimated_start: float
        estimate_rough: bool
        promised_start: float
        promise_from: float
        reasons: _containers.RepeatedCompositeFieldContainer[_common_pb2.WaitReason]
        refused: str
        sentence: str
        def __init__(self, task: _Optional[str] = ..., position: _Optional[int] = ..., at_once: _Optional[bool] = ..., estimated_start: _Optional[float] = ..., estimate_rough: _Optional[bool] = ..., promised_start: _Optional[float] = ..., promise_from: _Optional[float] = ..., reasons: _Optional[_Iterable[_Union[_common_pb2.WaitReason, _Mapping]]] = ..., refused: _Optional[str] = ..., sentence: _Optional[str] = ...) -> None: ...
    class Set(_message.Message):
        __slots__ = ("starts",)
        STARTS_FIELD_NUMBER: _ClassVar[int]
        starts: _containers.RepeatedCompositeFieldContainer[PreviewQueueReply.Start]
        def __init__(self, starts: _Optional[_Iterable[_Union[PreviewQueueReply.Start, _Mapping]]] = ...) -> None: ...
    SETS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_WAITING_FIELD_NUMBER: _ClassVar[int]
    TOTAL_RUNNING_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    DISCIPLINE_FIELD_NUMBER: _ClassVar[int]
    sets: _containers.RepeatedCompositeFieldContainer[PreviewQueueReply.Set]
    at: float
    total_waiting: int
    total_running: int
    policy: str
    discipline: str
    def __init__(self, sets: _Optional[_Iterable[_Union[PreviewQueueReply.Set, _Mapping]]] = ..., at: _Optional[float] = ..., total_waiting: _Optional[int] = ..., total_running: _Optional[int] = ..., policy: _Optional[str] = ..., discipline: _Optional[str] = ...) -> None: ...

class GetUsageRequest(_message.Message):
    __slots__ = ("by", "from_at", "to_at", "owner", "limit", "offset")
    BY_FIELD_NUMBER: _ClassVar[int]
    FROM_AT_FIELD_NUMBER: _ClassVar[int]
    TO_AT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    by: str
    from_at: float
    to_at: float
    owner: str
    limit: int
    offset: int
    def __init__(self, by: _Optional[str] = ..., from_at: _Optional[float] = ..., to_at: _Optional[float] = ..., owner: _Optional[str] = ..., limit: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class UsageSums(_message.Message):
    __slots__ = ("gpu_s", "cpu_s", "memory_byte_s", "attempts", "tasks", "started", "wait_s", "ended", "timed_out", "booked_gpu_s", "used_gpu_s", "measured_gpu_s", "busy_gpu_s", "idle_gpu_s", "failed_gpu_s", "wasted_gpu_s")
    GPU_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTE_S_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    BOOKED_GPU_S_FIELD_NUMBER: _ClassVar[int]
    USED_GPU_S_FIELD_NUMBER: _ClassVar[int]
    MEASURED_GPU_S_FIELD_NUMBER: _ClassVar[int]
    BUSY_GPU_S_FIELD_NUMBER: _ClassVar[int]
    IDLE_GPU_S_FIELD_NUMBER: _ClassVar[int]
    FAILED_GPU_S_FIELD_NUMBER: _ClassVar[int]
    WASTED_GPU_S_FIELD_NUMBER: _ClassVar[int]
    gpu_s: float
    cpu_s: float
    memory_byte_s: float
    attempts: int
    tasks: int
    started: int
    wait_s: float
    ended: int
    timed_out: int
    booked_gpu_s: float
    used_gpu_s: float
    measured_gpu_s: float
    busy_gpu_s: float
    idle_gpu_s: float
    failed_gpu_s: float
    wasted_gpu_s: float
    def __init__(self, gpu_s: _Optional[float] = ..., cpu_s: _Optional[float] = ..., memory_byte_s: _Optional[float] = ..., attempts: _Optional[int] = ..., tasks: _Optional[int] = ..., started: _Optional[int] = ..., wait_s: _Optional[float] = ..., ended: _Optional[int] = ..., timed_out: _Optional[int] = ..., booked_gpu_s: _Optional[float] = ..., used_gpu_s: _Optional[float] = ..., measured_gpu_s: _Optional[float] = ..., busy_gpu_s: _Optional[float] = ..., idle_gpu_s: _Optional[float] = ..., failed_gpu_s: _Optional[float] = ..., wasted_gpu_s: _Optional[float] = ...) -> None: ...

class GetUsageReply(_message.Message):
    __slots__ = ("rows", "rows_in_all", "total")
    class Row(_message.Message):
        __slots__ = ("key", "sums", "job_name", "owner")
        KEY_FIELD_NUMBER: _ClassVar[int]
        SUMS_FIELD_NUMBER: _ClassVar[int]
        JOB_NAME_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        key: str
        sums: UsageSums
        job_name: str
        owner: str
        def __init__(self, key: _Optional[str] = ..., sums: _Optional[_Union[UsageSums, _Mapping]] = ..., job_name: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ROWS_IN_ALL_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[GetUsageReply.Row]
    rows_in_all: int
    total: UsageSums
    def __init__(self, rows: _Optional[_Iterable[_Union[GetUsageReply.Row, _Mapping]]] = ..., rows_in_all: _Optional[int] = ..., total: _Optional[_Union[UsageSums, _Mapping]] = ...) -> None: ...

class MeasureLogsRequest(_message.Message):
    __slots__ = ("job_ids",)
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class MeasureLogsReply(_message.Message):
    __slots__ = ("log_bytes",)
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    log_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, log_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class RemoveJobsRequest(_message.Message):
    __slots__ = ("job_ids",)
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RemoveJobsReply(_message.Message):
    __slots__ = ("gone", "waits")
    class WaitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GONE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    gone: _containers.RepeatedScalarFieldContainer[str]
    waits: _containers.ScalarMap[str, str]
    def __init__(self, gone: _Optional[_Iterable[str]] = ..., waits: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("from_at", "to_at", "owner")
    FROM_AT_FIELD_NUMBER: _ClassVar[int]
    TO_AT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    from_at: float
    to_at: float
    owner: str
    def __init__(self, from_at: _Optional[float] = ..., to_at: _Optional[float] = ..., owner: _Optional[str] = ...) -> None: ...

class PastRun(_message.Message):
    __slots__ = ("attempt", "owner", "queued_at", "run_s", "timeout_s", "resources", "priority", "timed_out")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    QUEUED_AT_FIELD_NUMBER: _ClassVar[int]
    RUN_S_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    owner: str
    queued_at: float
    run_s: float
    timeout_s: float
    resources: _common_pb2.Resources
    priority: int
    timed_out: bool
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., owner: _Optional[str] = ..., queued_at: _Optional[float] = ..., run_s: _Optional[float] = ..., timeout_s: _Optional[float] = ..., resources: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ..., priority: _Optional[int] = ..., timed_out: _Optional[bool] = ...) -> None: ...

class ListRunsReply(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[PastRun]
    def __init__(self, runs: _Optional[_Iterable[_Union[PastRun, _Mapping]]] = ...) -> None: ...
