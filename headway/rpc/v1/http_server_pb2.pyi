from headway.rpc.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobEvent(_message.Message):
    __slots__ = ("word", "at", "job_id", "owner", "job_name", "task", "generation", "attempt", "state", "reason", "by", "tasks", "sentence")
    WORD_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    word: str
    at: float
    job_id: str
    owner: str
    job_name: str
    task: str
    generation: int
    attempt: int
    state: str
    reason: _common_pb2.EndReason
    by: str
    tasks: int
    sentence: str
    def __init__(self, word: _Optional[str] = ..., at: _Optional[float] = ..., job_id: _Optional[str] = ..., owner: _Optional[str] = ..., job_name: _Optional[str] = ..., task: _Optional[str] = ..., generation: _Optional[int] = ..., attempt: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[_Union[_common_pb2.EndReason, _Mapping]] = ..., by: _Optional[str] = ..., tasks: _Optional[int] = ..., sentence: _Optional[str] = ...) -> None: ...

class JobEventBatch(_message.Message):
    __slots__ = ("seq", "incarnation", "events")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    incarnation: str
    events: _containers.RepeatedCompositeFieldContainer[JobEvent]
    def __init__(self, seq: _Optional[int] = ..., incarnation: _Optional[str] = ..., events: _Optional[_Iterable[_Union[JobEvent, _Mapping]]] = ...) -> None: ...

class ApplyJobEventsRequest(_message.Message):
    __slots__ = ("batches", "told")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[JobEventBatch]
    told: JobEventBatch
    def __init__(self, batches: _Optional[_Iterable[_Union[JobEventBatch, _Mapping]]] = ..., told: _Optional[_Union[JobEventBatch, _Mapping]] = ...) -> None: ...

class ApplyJobEventsReply(_message.Message):
    __slots__ = ("last_seq",)
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    last_seq: int
    def __init__(self, last_seq: _Optional[int] = ...) -> None: ...

class ResolveUserRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ResolveUserReply(_message.Message):
    __slots__ = ("account", "enabled")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    account: _common_pb2.Account
    enabled: bool
    def __init__(self, account: _Optional[_Union[_common_pb2.Account, _Mapping]] = ..., enabled: _Optional[bool] = ...) -> None: ...

class ResolveImageRequest(_message.Message):
    __slots__ = ("name", "account")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    account: str
    def __init__(self, name: _Optional[str] = ..., account: _Optional[str] = ...) -> None: ...

class ResolveImageReply(_message.Message):
    __slots__ = ("source", "digest", "nodes", "architecture", "require_cuda", "bytes", "sentence")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_CUDA_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    source: _common_pb2.ImageSource
    digest: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    architecture: str
    require_cuda: str
    bytes: int
    sentence: str
    def __init__(self, source: _Optional[_Union[_common_pb2.ImageSource, str]] = ..., digest: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., architecture: _Optional[str] = ..., require_cuda: _Optional[str] = ..., bytes: _Optional[int] = ..., sentence: _Optional[str] = ...) -> None: ...

class RemoveJobFoldersRequest(_message.Message):
    __slots__ = ("job_ids",)
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RemoveJobFoldersReply(_message.Message):
    __slots__ = ("gone",)
    GONE_FIELD_NUMBER: _ClassVar[int]
    gone: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, gone: _Optional[_Iterable[str]] = ...) -> None: ...

class GetRegistryAuthRequest(_message.Message):
    __slots__ = ("account", "registry")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    REGISTRY_FIELD_NUMBER: _ClassVar[int]
    account: str
    registry: str
    def __init__(self, account: _Optional[str] = ..., registry: _Optional[str] = ...) -> None: ...

class GetRegistryAuthReply(_message.Message):
    __slots__ = ("username", "password")
    USERNAME_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    username: str
    password: str
    def __init__(self, username: _Optional[str] = ..., password: _Optional[str] = ...) -> None: ...

class GetTaskSecretsRequest(_message.Message):
    __slots__ = ("attempt", "node_id", "names")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    node_id: str
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., node_id: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class GetTaskSecretsReply(_message.Message):
    __slots__ = ("secrets", "missing")
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    secrets: _containers.RepeatedCompositeFieldContainer[SecretValue]
    missing: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, secrets: _Optional[_Iterable[_Union[SecretValue, _Mapping]]] = ..., missing: _Optional[_Iterable[str]] = ...) -> None: ...

class SecretValue(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
