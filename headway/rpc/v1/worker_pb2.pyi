from headway.rpc.v1 import common_pb2 as _common_pb2
from headway.rpc.v1 import task_manager_pb2 as _task_manager_pb2
from headway.rpc.v1 import resource_manager_pb2 as _resource_manager_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LaunchAttempt(_message.Message):
    __slots__ = ("attempt", "generation", "owner", "job_name", "spec", "gpu_uuids", "placed_at", "incarnation", "lease_s", "lease_enforced")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    GPU_UUIDS_FIELD_NUMBER: _ClassVar[int]
    PLACED_AT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    LEASE_ENFORCED_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    generation: int
    owner: _common_pb2.Account
    job_name: str
    spec: _common_pb2.TaskSpec
    gpu_uuids: _containers.RepeatedScalarFieldContainer[str]
    placed_at: float
    incarnation: int
    lease_s: float
    lease_enforced: bool
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., generation: _Optional[int] = ..., owner: _Optional[_Union[_common_pb2.Account, _Mapping]] = ..., job_name: _Optional[str] = ..., spec: _Optional[_Union[_common_pb2.TaskSpec, _Mapping]] = ..., gpu_uuids: _Optional[_Iterable[str]] = ..., placed_at: _Optional[float] = ..., incarnation: _Optional[int] = ..., lease_s: _Optional[float] = ..., lease_enforced: _Optional[bool] = ...) -> None: ...

class LaunchRequest(_message.Message):
    __slots__ = ("launches",)
    LAUNCHES_FIELD_NUMBER: _ClassVar[int]
    launches: _containers.RepeatedCompositeFieldContainer[LaunchAttempt]
    def __init__(self, launches: _Optional[_Iterable[_Union[LaunchAttempt, _Mapping]]] = ...) -> None: ...

class LaunchReply(_message.Message):
    __slots__ = ("verdicts",)
    class Verdict(_message.Message):
        __slots__ = ("attempt", "accepted", "slug", "sentence", "again_later", "accepted_at")
        ATTEMPT_FIELD_NUMBER: _ClassVar[int]
        ACCEPTED_FIELD_NUMBER: _ClassVar[int]
        SLUG_FIELD_NUMBER: _ClassVar[int]
        SENTENCE_FIELD_NUMBER: _ClassVar[int]
        AGAIN_LATER_FIELD_NUMBER: _ClassVar[int]
        ACCEPTED_AT_FIELD_NUMBER: _ClassVar[int]
        attempt: _common_pb2.Attempt
        accepted: bool
        slug: str
        sentence: str
        again_later: bool
        accepted_at: float
        def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., accepted: _Optional[bool] = ..., slug: _Optional[str] = ..., sentence: _Optional[str] = ..., again_later: _Optional[bool] = ..., accepted_at: _Optional[float] = ...) -> None: ...
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedCompositeFieldContainer[LaunchReply.Verdict]
    def __init__(self, verdicts: _Optional[_Iterable[_Union[LaunchReply.Verdict, _Mapping]]] = ...) -> None: ...

class StopRequest(_message.Message):
    __slots__ = ("orders", "suspend_leases")
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_LEASES_FIELD_NUMBER: _ClassVar[int]
    orders: _containers.RepeatedCompositeFieldContainer[_task_manager_pb2.StopOrder]
    suspend_leases: bool
    def __init__(self, orders: _Optional[_Iterable[_Union[_task_manager_pb2.StopOrder, _Mapping]]] = ..., suspend_leases: _Optional[bool] = ...) -> None: ...

class StopReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExtendRequest(_message.Message):
    __slots__ = ("orders",)
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    orders: _containers.RepeatedCompositeFieldContainer[_task_manager_pb2.ExtendOrder]
    def __init__(self, orders: _Optional[_Iterable[_Union[_task_manager_pb2.ExtendOrder, _Mapping]]] = ...) -> None: ...

class ExtendReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadLogRequest(_message.Message):
    __slots__ = ("attempt", "stream", "offset", "limit", "tail", "follow", "without_marks")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_MARKS_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    stream: str
    offset: int
    limit: int
    tail: int
    follow: bool
    without_marks: bool
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., stream: _Optional[str] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ..., tail: _Optional[int] = ..., follow: _Optional[bool] = ..., without_marks: _Optional[bool] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("data", "offset", "size", "ended", "marks")
    DATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    offset: int
    size: int
    ended: bool
    marks: _containers.RepeatedCompositeFieldContainer[LogMark]
    def __init__(self, data: _Optional[bytes] = ..., offset: _Optional[int] = ..., size: _Optional[int] = ..., ended: _Optional[bool] = ..., marks: _Optional[_Iterable[_Union[LogMark, _Mapping]]] = ...) -> None: ...

class LogMark(_message.Message):
    __slots__ = ("offset", "at")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    offset: int
    at: float
    def __init__(self, offset: _Optional[int] = ..., at: _Optional[float] = ...) -> None: ...

class ReadSamplesRequest(_message.Message):
    __slots__ = ("attempt", "offset", "follow")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    attempt: _common_pb2.Attempt
    offset: int
    follow: bool
    def __init__(self, attempt: _Optional[_Union[_common_pb2.Attempt, _Mapping]] = ..., offset: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class SamplesChunk(_message.Message):
    __slots__ = ("data", "offset", "ended")
    DATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    offset: int
    ended: bool
    def __init__(self, data: _Optional[bytes] = ..., offset: _Optional[int] = ..., ended: _Optional[bool] = ...) -> None: ...

class PrepareImagesRequest(_message.Message):
    __slots__ = ("images",)
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    images: _containers.RepeatedCompositeFieldContainer[WantedImage]
    def __init__(self, images: _Optional[_Iterable[_Union[WantedImage, _Mapping]]] = ...) -> None: ...

class WantedImage(_message.Message):
    __slots__ = ("image", "digest", "source", "account")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    image: str
    digest: str
    source: _common_pb2.ImageSource
    account: str
    def __init__(self, image: _Optional[str] = ..., digest: _Optional[str] = ..., source: _Optional[_Union[_common_pb2.ImageSource, str]] = ..., account: _Optional[str] = ...) -> None: ...

class PrepareImagesReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
