from headway.rpc.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobHeader(_message.Message):
    __slots__ = ("owner", "request_id", "name", "priority", "spec_hash", "dry_run", "allow_unsatisfiable", "task_count", "graph_only", "known_only")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SPEC_HASH_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    ALLOW_UNSATISFIABLE_FIELD_NUMBER: _ClassVar[int]
    TASK_COUNT_FIELD_NUMBER: _ClassVar[int]
    GRAPH_ONLY_FIELD_NUMBER: _ClassVar[int]
    KNOWN_ONLY_FIELD_NUMBER: _ClassVar[int]
    owner: _common_pb2.Account
    request_id: str
    name: str
    priority: _common_pb2.Priority
    spec_hash: str
    dry_run: bool
    allow_unsatisfiable: bool
    task_count: int
    graph_only: bool
    known_only: bool
    def __init__(self, owner: _Optional[_Union[_common_pb2.Account, _Mapping]] = ..., request_id: _Optional[str] = ..., name: _Optional[str] = ..., priority: _Optional[_Union[_common_pb2.Priority, str]] = ..., spec_hash: _Optional[str] = ..., dry_run: _Optional[bool] = ..., allow_unsatisfiable: _Optional[bool] = ..., task_count: _Optional[int] = ..., graph_only: _Optional[bool] = ..., known_only: _Optional[bool] = ...) -> None: ...

class SubmitJobPart(_message.Message):
    __slots__ = ("header", "tasks")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    header: JobHeader
    tasks: _containers.RepeatedCompositeFieldContainer[_common_pb2.TaskSpec]
    def __init__(self, header: _Optional[_Union[JobHeader, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[_common_pb2.TaskSpec, _Mapping]]] = ...) -> None: ...

class SubmitJobReply(_message.Message):
    __slots__ = ("job_id", "problems", "order", "already_known", "warnings")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    ALREADY_KNOWN_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    problems: _containers.RepeatedCompositeFieldContainer[_common_pb2.Problem]
    order: _containers.RepeatedScalarFieldContainer[str]
    already_known: bool
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., problems: _Optional[_Iterable[_Union[_common_pb2.Problem, _Mapping]]] = ..., order: _Optional[_Iterable[str]] = ..., already_known: _Optional[bool] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "name", "owner", "owner_uid", "priority", "state", "submitted_at", "started_at", "ended_at", "held", "task_count", "tasks_by_state", "spec_hash", "reason", "reason_task", "version", "pinned", "kept_until")
    class TasksByStateEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    OWNER_UID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    TASK_COUNT_FIELD_NUMBER: _ClassVar[int]
    TASKS_BY_STATE_FIELD_NUMBER: _ClassVar[int]
    SPEC_HASH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_TASK_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    KEPT_UNTIL_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    owner: str
    owner_uid: int
    priority: _common_pb2.Priority
    state: str
    submitted_at: float
    started_at: float
    ended_at: float
    held: bool
    task_count: int
    tasks_by_state: _containers.ScalarMap[str, int]
    spec_hash: str
    reason: _common_pb2.EndReason
    reason_task: str
    version: int
    pinned: bool
    kept_until: float
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., owner_uid: _Optional[int] = ..., priority: _Optional[_Union[_common_pb2.Priority, str]] = ..., state: _Optional[str] = ..., submitted_at: _Optional[float] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., held: _Optional[bool] = ..., task_count: _Optional[int] = ..., tasks_by_state: _Optional[_Mapping[str, int]] = ..., spec_hash: _Optional[str] = ..., reason: _Optional[_Union[_common_pb2.EndReason, _Mapping]] = ..., reason_task: _Optional[str] = ..., version: _Optional[int] = ..., pinned: _Optional[bool] = ..., kept_until: _Optional[float] = ...) -> None: ...

class TaskView(_message.Message):
    __slots__ = ("name", "state", "needs", "attempt", "generation", "reason", "sentence", "queued_at", "started_at", "ended_at", "held", "image", "resources", "timeout_s", "retries", "waits_for", "node_id", "image_digest", "image_source", "datasets", "code")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    QUEUED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    IMAGE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    IMAGE_SOURCE_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    needs: _containers.RepeatedCompositeFieldContainer[_common_pb2.Need]
    attempt: int
    generation: int
    reason: _common_pb2.EndReason
    sentence: str
    queued_at: float
    started_at: float
    ended_at: float
    held: bool
    image: str
    resources: _common_pb2.Resources
    timeout_s: float
    retries: int
    waits_for: _containers.RepeatedScalarFieldContainer[str]
    node_id: str
    image_digest: str
    image_source: _common_pb2.ImageSource
    datasets: _containers.RepeatedCompositeFieldContainer[_common_pb2.DatasetPin]
    code: str
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., needs: _Optional[_Iterable[_Union[_common_pb2.Need, _Mapping]]] = ..., attempt: _Optional[int] = ..., generation: _Optional[int] = ..., reason: _Optional[_Union[_common_pb2.EndReason, _Mapping]] = ..., sentence: _Optional[str] = ..., queued_at: _Optional[float] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., held: _Optional[bool] = ..., image: _Optional[str] = ..., resources: _Optional[_Union[_common_pb2.Resources, _Mapping]] = ..., timeout_s: _Optional[float] = ..., retries: _Optional[int] = ..., waits_for: _Optional[_Iterable[str]] = ..., node_id: _Optional[str] = ..., image_digest: _Optional[str] = ..., image_source: _Optional[_Union[_common_pb2.ImageSource, str]] = ..., datasets: _Optional[_Iterable[_Union[_common_pb2.DatasetPin, _Mapping]]] = ..., code: _Optional[str] = ...) -> None: ...

class JobPart(_message.Message):
    __slots__ = ("job", "tasks", "notices")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    job: Job
    tasks: _containers.RepeatedCompositeFieldContainer[TaskView]
    notices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[TaskView, _Mapping]]] = ..., notices: _Optional[_Iterable[str]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("owner", "states", "query", "limit", "cursor", "oldest_first", "count")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    owner: str
    states: _containers.RepeatedScalarFieldContainer[str]
    query: str
    limit: int
    cursor: str
    oldest_first: bool
    count: bool
    def __init__(self, owner: _Optional[str] = ..., states: _Optional[_Iterable[str]] = ..., query: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ..., oldest_first: _Optional[bool] = ..., count: _Optional[bool] = ...) -> None: ...

class ListJobsReply(_message.Message):
    __slots__ = ("jobs", "next_cursor", "count")
    class Count(_message.Message):
        __slots__ = ("jobs", "running", "more")
        JOBS_FIELD_NUMBER: _ClassVar[int]
        RUNNING_FIELD_NUMBER: _ClassVar[int]
        MORE_FIELD_NUMBER: _ClassVar[int]
        jobs: int
        running: int
        more: bool
        def __init__(self, jobs: _Optional[int] = ..., running: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next_cursor: str
    count: ListJobsReply.Count
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., next_cursor: _Optional[str] = ..., count: _Optional[_Union[ListJobsReply.Count, _Mapping]] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("job_id", "with_tasks", "task_names", "tasks_offset", "tasks_limit")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WITH_TASKS_FIELD_NUMBER: _ClassVar[int]
    TASK_NAMES_FIELD_NUMBER: _ClassVar[int]
    TASKS_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TASKS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    with_tasks: bool
    task_names: _containers.RepeatedScalarFieldContainer[str]
    tasks_offset: int
    tasks_limit: int
    def __init__(self, job_id: _Optional[str] = ..., with_tasks: _Optional[bool] = ..., task_names: _Optional[_Iterable[str]] = ..., tasks_offset: _Optional[int] = ..., tasks_limit: _Optional[int] = ...) -> None: ...

class ResolveJobRequest(_message.Message):
    __slots__ = ("prefix", "owner")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    owner: str
    def __init__(self, prefix: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class ResolveJobReply(_message.Message):
    __slots__ = ("job_ids",)
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CheckWaitingRequest(_message.Message):
    __slots__ = ("owner", "tasks")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    owner: str
    tasks: int
    def __init__(self, owner: _Optional[str] = ..., tasks: _Optional[int] = ...) -> None: ...

class CheckWaitingReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ActOnJobRequest(_message.Message):
    __slots__ = ("job_id", "task", "action", "request_id", "by")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ACTION_UNSPECIFIED: _ClassVar[ActOnJobRequest.Action]
        ACTION_CANCEL: _ClassVar[ActOnJobRequest.Action]
        ACTION_RETRY: _ClassVar[ActOnJobRequest.Action]
        ACTION_HOLD: _ClassVar[ActOnJobRequest.Action]
        ACTION_RELEASE: _ClassVar[ActOnJobRequest.Action]
        ACTION_PIN: _ClassVar[ActOnJobRequest.Action]
        ACTION_UNPIN: _ClassVar[ActOnJobRequest.Action]
        ACTION_DELETE: _ClassVar[ActOnJobRequest.Action]
    ACTION_UNSPECIFIED: ActOnJobRequest.Action
    ACTION_CANCEL: ActOnJobRequest.Action
    ACTION_RETRY: ActOnJobRequest.Action
    ACTION_HOLD: ActOnJobRequest.Action
    ACTION_RELEASE: ActOnJobRequest.Action
    ACTION_PIN: ActOnJobRequest.Action
    ACTION_UNPIN: ActOnJobRequest.Action
    ACTION_DELETE: ActOnJobRequest.Action
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    task: str
    action: ActOnJobRequest.Action
    request_id: str
    by: str
    def __init__(self, job_id: _Optional[str] = ..., task: _Optional[str] = ..., action: _Optional[_Union[ActOnJobRequest.Action, str]] = ..., request_id: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ActOnJobReply(_message.Message):
    __slots__ = ("job", "tasks_changed")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TASKS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    job: Job
    tasks_changed: int
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., tasks_changed: _Optional[int] = ...) -> None: ...

class PruneJobsRequest(_message.Message):
    __slots__ = ("older_s", "owner", "dry_run", "by", "cursor")
    OLDER_S_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    older_s: float
    owner: str
    dry_run: bool
    by: str
    cursor: str
    def __init__(self, older_s: _Optional[float] = ..., owner: _Optional[str] = ..., dry_run: _Optional[bool] = ..., by: _Optional[str] = ..., cursor: _Optional[str] = ...) -> None: ...

class PruneJobsReply(_message.Message):
    __slots__ = ("jobs", "tasks", "log_bytes", "unmeasured", "pinned", "ended_before", "next_cursor")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNMEASURED_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    ENDED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    jobs: int
    tasks: int
    log_bytes: int
    unmeasured: int
    pinned: int
    ended_before: float
    next_cursor: str
    def __init__(self, jobs: _Optional[int] = ..., tasks: _Optional[int] = ..., log_bytes: _Optional[int] = ..., unmeasured: _Optional[int] = ..., pinned: _Optional[int] = ..., ended_before: _Optional[float] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class HoldAccountsRequest(_message.Message):
    __slots__ = ("accounts",)
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    accounts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, accounts: _Optional[_Iterable[str]] = ...) -> None: ...

class HoldAccountsReply(_message.Message):
    __slots__ = ("tasks_changed",)
    TASKS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    tasks_changed: int
    def __init__(self, tasks_changed: _Optional[int] = ...) -> None: ...

class WatchJobsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class JobChanges(_message.Message):
    __slots__ = ("changes", "removed")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[JobChange]
    removed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, changes: _Optional[_Iterable[_Union[JobChange, _Mapping]]] = ..., removed: _Optional[_Iterable[str]] = ...) -> None: ...

class JobChange(_message.Message):
    __slots__ = ("job", "tasks")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    job: Job
    tasks: _containers.RepeatedCompositeFieldContainer[TaskView]
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[TaskView, _Mapping]]] = ...) -> None: ...

class TaskEvent(_message.Message):
    __slots__ = ("task", "generation", "seq", "kind", "attempt", "at", "reason", "node_id", "process_started_at", "notice")
    TASK_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PROCESS_STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.Task
    generation: int
    seq: int
    kind: str
    attempt: int
    at: float
    reason: _common_pb2.EndReason
    node_id: str
    process_started_at: float
    notice: str
    def __init__(self, task: _Optional[_Union[_common_pb2.Task, _Mapping]] = ..., generation: _Optional[int] = ..., seq: _Optional[int] = ..., kind: _Optional[str] = ..., attempt: _Optional[int] = ..., at: _Optional[float] = ..., reason: _Optional[_Union[_common_pb2.EndReason, _Mapping]] = ..., node_id: _Optional[str] = ..., process_started_at: _Optional[float] = ..., notice: _Optional[str] = ...) -> None: ...

class ReportTaskEventsRequest(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[TaskEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[TaskEvent, _Mapping]]] = ...) -> None: ...

class ReportTaskEventsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
