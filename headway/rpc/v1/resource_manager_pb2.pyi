from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Gpu(_message.Message):
    __slots__ = ("uuid", "model", "memory_bytes", "index", "pci_bus_id", "simulated", "utilisation", "memory_utilisation", "memory_used_bytes", "temperature_c", "power_w", "sick", "busy_outside", "note", "fault", "processes", "parent_uuid", "linked_uuids", "quarantined_since", "shared")
    UUID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PCI_BUS_ID_FIELD_NUMBER: _ClassVar[int]
    SIMULATED_FIELD_NUMBER: _ClassVar[int]
    UTILISATION_FIELD_NUMBER: _ClassVar[int]
    MEMORY_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    POWER_W_FIELD_NUMBER: _ClassVar[int]
    SICK_FIELD_NUMBER: _ClassVar[int]
    BUSY_OUTSIDE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    PARENT_UUID_FIELD_NUMBER: _ClassVar[int]
    LINKED_UUIDS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_SINCE_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    model: str
    memory_bytes: int
    index: int
    pci_bus_id: str
    simulated: bool
    utilisation: float
    memory_utilisation: float
    memory_used_bytes: int
    temperature_c: float
    power_w: float
    sick: bool
    busy_outside: bool
    note: str
    fault: str
    processes: _containers.RepeatedCompositeFieldContainer[GpuProcess]
    parent_uuid: str
    linked_uuids: _containers.RepeatedScalarFieldContainer[str]
    quarantined_since: float
    shared: bool
    def __init__(self, uuid: _Optional[str] = ..., model: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., index: _Optional[int] = ..., pci_bus_id: _Optional[str] = ..., simulated: _Optional[bool] = ..., utilisation: _Optional[float] = ..., memory_utilisation: _Optional[float] = ..., memory_used_bytes: _Optional[int] = ..., temperature_c: _Optional[float] = ..., power_w: _Optional[float] = ..., sick: _Optional[bool] = ..., busy_outside: _Optional[bool] = ..., note: _Optional[str] = ..., fault: _Optional[str] = ..., processes: _Optional[_Iterable[_Union[GpuProcess, _Mapping]]] = ..., parent_uuid: _Optional[str] = ..., linked_uuids: _Optional[_Iterable[str]] = ..., quarantined_since: _Optional[float] = ..., shared: _Optional[bool] = ...) -> None: ...

class GpuProcess(_message.Message):
    __slots__ = ("pid", "owner", "command", "memory_used_bytes")
    PID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    pid: int
    owner: str
    command: str
    memory_used_bytes: int
    def __init__(self, pid: _Optional[int] = ..., owner: _Optional[str] = ..., command: _Optional[str] = ..., memory_used_bytes: _Optional[int] = ...) -> None: ...

class Capacity(_message.Message):
    __slots__ = ("cpu_centi", "memory_bytes", "gpus", "architecture", "engine_version", "driver_version", "cuda_version", "runtime", "any_image", "most_ulimits", "gpu_passing")
    CPU_CENTI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    DRIVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    CUDA_VERSION_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    ANY_IMAGE_FIELD_NUMBER: _ClassVar[int]
    MOST_ULIMITS_FIELD_NUMBER: _ClassVar[int]
    GPU_PASSING_FIELD_NUMBER: _ClassVar[int]
    cpu_centi: int
    memory_bytes: int
    gpus: _containers.RepeatedCompositeFieldContainer[Gpu]
    architecture: str
    engine_version: str
    driver_version: str
    cuda_version: str
    runtime: str
    any_image: bool
    most_ulimits: _containers.RepeatedCompositeFieldContainer[UlimitMost]
    gpu_passing: str
    def __init__(self, cpu_centi: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[Gpu, _Mapping]]] = ..., architecture: _Optional[str] = ..., engine_version: _Optional[str] = ..., driver_version: _Optional[str] = ..., cuda_version: _Optional[str] = ..., runtime: _Optional[str] = ..., any_image: _Optional[bool] = ..., most_ulimits: _Optional[_Iterable[_Union[UlimitMost, _Mapping]]] = ..., gpu_passing: _Optional[str] = ...) -> None: ...

class UlimitMost(_message.Message):
    __slots__ = ("name", "hard")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HARD_FIELD_NUMBER: _ClassVar[int]
    name: str
    hard: int
    def __init__(self, name: _Optional[str] = ..., hard: _Optional[int] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("word", "sentence", "since", "blocks_work")
    WORD_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_WORK_FIELD_NUMBER: _ClassVar[int]
    word: str
    sentence: str
    since: float
    blocks_work: bool
    def __init__(self, word: _Optional[str] = ..., sentence: _Optional[str] = ..., since: _Optional[float] = ..., blocks_work: _Optional[bool] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("node_id", "incarnation", "at", "capacity", "conditions", "cpu_used", "memory_used_bytes", "memory_total_bytes", "disk_free_bytes", "disk_total_bytes", "load1", "live_attempts", "images", "engine_images", "worker_uuid", "boot_id")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    CPU_USED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOAD1_FIELD_NUMBER: _ClassVar[int]
    LIVE_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    ENGINE_IMAGES_FIELD_NUMBER: _ClassVar[int]
    WORKER_UUID_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: int
    at: float
    capacity: Capacity
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    cpu_used: float
    memory_used_bytes: int
    memory_total_bytes: int
    disk_free_bytes: int
    disk_total_bytes: int
    load1: float
    live_attempts: int
    images: _containers.RepeatedScalarFieldContainer[str]
    engine_images: _containers.RepeatedCompositeFieldContainer[EngineImage]
    worker_uuid: str
    boot_id: str
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., at: _Optional[float] = ..., capacity: _Optional[_Union[Capacity, _Mapping]] = ..., conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., cpu_used: _Optional[float] = ..., memory_used_bytes: _Optional[int] = ..., memory_total_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., disk_total_bytes: _Optional[int] = ..., load1: _Optional[float] = ..., live_attempts: _Optional[int] = ..., images: _Optional[_Iterable[str]] = ..., engine_images: _Optional[_Iterable[_Union[EngineImage, _Mapping]]] = ..., worker_uuid: _Optional[str] = ..., boot_id: _Optional[str] = ...) -> None: ...

class EngineImage(_message.Message):
    __slots__ = ("id", "names", "repo_digests", "bytes", "ours")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    REPO_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    OURS_FIELD_NUMBER: _ClassVar[int]
    id: str
    names: _containers.RepeatedScalarFieldContainer[str]
    repo_digests: _containers.RepeatedScalarFieldContainer[str]
    bytes: int
    ours: bool
    def __init__(self, id: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., repo_digests: _Optional[_Iterable[str]] = ..., bytes: _Optional[int] = ..., ours: _Optional[bool] = ...) -> None: ...

class RegisterNodeRequest(_message.Message):
    __slots__ = ("node_id", "incarnation", "address", "status", "version", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: int
    address: str
    status: NodeStatus
    version: str
    labels: _containers.ScalarMap[str, str]
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., address: _Optional[str] = ..., status: _Optional[_Union[NodeStatus, _Mapping]] = ..., version: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class RegisterNodeReply(_message.Message):
    __slots__ = ("poll_s",)
    POLL_S_FIELD_NUMBER: _ClassVar[int]
    poll_s: float
    def __init__(self, poll_s: _Optional[float] = ...) -> None: ...

class ReportStatusRequest(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: NodeStatus
    def __init__(self, status: _Optional[_Union[NodeStatus, _Mapping]] = ...) -> None: ...

class ReportStatusReply(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: bool
    def __init__(self, known: _Optional[bool] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("id", "incarnation", "address", "health", "admission", "status", "registered_at", "seen_at", "note", "version", "labels", "health_sentence", "drain", "events")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_FIELD_NUMBER: _ClassVar[int]
    SEEN_AT_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_SENTENCE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    incarnation: int
    address: str
    health: str
    admission: str
    status: NodeStatus
    registered_at: float
    seen_at: float
    note: str
    version: str
    labels: _containers.ScalarMap[str, str]
    health_sentence: str
    drain: Drain
    events: _containers.RepeatedCompositeFieldContainer[NodeEvent]
    def __init__(self, id: _Optional[str] = ..., incarnation: _Optional[int] = ..., address: _Optional[str] = ..., health: _Optional[str] = ..., admission: _Optional[str] = ..., status: _Optional[_Union[NodeStatus, _Mapping]] = ..., registered_at: _Optional[float] = ..., seen_at: _Optional[float] = ..., note: _Optional[str] = ..., version: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., health_sentence: _Optional[str] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., events: _Optional[_Iterable[_Union[NodeEvent, _Mapping]]] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ("since_at", "by", "until_at", "attempts_at_start", "return_when_back", "return_at")
    SINCE_AT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    UNTIL_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_AT_START_FIELD_NUMBER: _ClassVar[int]
    RETURN_WHEN_BACK_FIELD_NUMBER: _ClassVar[int]
    RETURN_AT_FIELD_NUMBER: _ClassVar[int]
    since_at: float
    by: str
    until_at: float
    attempts_at_start: int
    return_when_back: bool
    return_at: float
    def __init__(self, since_at: _Optional[float] = ..., by: _Optional[str] = ..., until_at: _Optional[float] = ..., attempts_at_start: _Optional[int] = ..., return_when_back: _Optional[bool] = ..., return_at: _Optional[float] = ...) -> None: ...

class NodeEvent(_message.Message):
    __slots__ = ("at", "word", "sentence")
    AT_FIELD_NUMBER: _ClassVar[int]
    WORD_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    at: float
    word: str
    sentence: str
    def __init__(self, at: _Optional[float] = ..., word: _Optional[str] = ..., sentence: _Optional[str] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class ListNodesReply(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...

class GetNodeUsageRequest(_message.Message):
    __slots__ = ("node_id", "since", "until", "max_points")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    MAX_POINTS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    since: float
    until: float
    max_points: int
    def __init__(self, node_id: _Optional[str] = ..., since: _Optional[float] = ..., until: _Optional[float] = ..., max_points: _Optional[int] = ...) -> None: ...

class UsagePoint(_message.Message):
    __slots__ = ("at", "cpu_used", "memory_used_bytes", "disk_free_bytes", "gpus", "live_attempts", "span_s", "peak")
    AT_FIELD_NUMBER: _ClassVar[int]
    CPU_USED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    LIVE_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SPAN_S_FIELD_NUMBER: _ClassVar[int]
    PEAK_FIELD_NUMBER: _ClassVar[int]
    at: float
    cpu_used: float
    memory_used_bytes: int
    disk_free_bytes: int
    gpus: _containers.RepeatedCompositeFieldContainer[Gpu]
    live_attempts: int
    span_s: float
    peak: UsagePoint
    def __init__(self, at: _Optional[float] = ..., cpu_used: _Optional[float] = ..., memory_used_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[Gpu, _Mapping]]] = ..., live_attempts: _Optional[int] = ..., span_s: _Optional[float] = ..., peak: _Optional[_Union[UsagePoint, _Mapping]] = ...) -> None: ...

class GetNodeUsageReply(_message.Message):
    __slots__ = ("points", "span_s")
    POINTS_FIELD_NUMBER: _ClassVar[int]
    SPAN_S_FIELD_NUMBER: _ClassVar[int]
    points: _containers.RepeatedCompositeFieldContainer[UsagePoint]
    span_s: float
    def __init__(self, points: _Optional[_Iterable[_Union[UsagePoint, _Mapping]]] = ..., span_s: _Optional[float] = ...) -> None: ...

class SetAdmissionRequest(_message.Message):
    __slots__ = ("node_id", "action", "note", "by", "until_at", "return_when_back", "return_at")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ACTION_UNSPECIFIED: _ClassVar[SetAdmissionRequest.Action]
        ACTION_CORDON: _ClassVar[SetAdmissionRequest.Action]
        ACTION_UNCORDON: _ClassVar[SetAdmissionRequest.Action]
        ACTION_DRAIN: _ClassVar[SetAdmissionRequest.Action]
    ACTION_UNSPECIFIED: SetAdmissionRequest.Action
    ACTION_CORDON: SetAdmissionRequest.Action
    ACTION_UNCORDON: SetAdmissionRequest.Action
    ACTION_DRAIN: SetAdmissionRequest.Action
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    UNTIL_AT_FIELD_NUMBER: _ClassVar[int]
    RETURN_WHEN_BACK_FIELD_NUMBER: _ClassVar[int]
    RETURN_AT_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    action: SetAdmissionRequest.Action
    note: str
    by: str
    until_at: float
    return_when_back: bool
    return_at: float
    def __init__(self, node_id: _Optional[str] = ..., action: _Optional[_Union[SetAdmissionRequest.Action, str]] = ..., note: _Optional[str] = ..., by: _Optional[str] = ..., until_at: _Optional[float] = ..., return_when_back: _Optional[bool] = ..., return_at: _Optional[float] = ...) -> None: ...

class SetAdmissionReply(_message.Message):
    __slots__ = ("node", "changed")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    node: Node
    changed: str
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ..., changed: _Optional[str] = ...) -> None: ...

class ReplaceNodeRequest(_message.Message):
    __slots__ = ("node_id", "by")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    by: str
    def __init__(self, node_id: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ReplaceNodeReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReturnGpuRequest(_message.Message):
    __slots__ = ("node_id", "uuid", "by", "gone")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    uuid: str
    by: str
    gone: bool
    def __init__(self, node_id: _Optional[str] = ..., uuid: _Optional[str] = ..., by: _Optional[str] = ..., gone: _Optional[bool] = ...) -> None: ...

class ReturnGpuReply(_message.Message):
    __slots__ = ("returned", "sentence")
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    returned: bool
    sentence: str
    def __init__(self, returned: _Optional[bool] = ..., sentence: _Optional[str] = ...) -> None: ...

class GetTrustRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetTrustReply(_message.Message):
    __slots__ = ("ca_pem", "revoked", "at", "version")
    CA_PEM_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ca_pem: bytes
    revoked: _containers.RepeatedScalarFieldContainer[str]
    at: float
    version: str
    def __init__(self, ca_pem: _Optional[bytes] = ..., revoked: _Optional[_Iterable[str]] = ..., at: _Optional[float] = ..., version: _Optional[str] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("csr_pem",)
    CSR_PEM_FIELD_NUMBER: _ClassVar[int]
    csr_pem: bytes
    def __init__(self, csr_pem: _Optional[bytes] = ...) -> None: ...

class RenewReply(_message.Message):
    __slots__ = ("cert_pem",)
    CERT_PEM_FIELD_NUMBER: _ClassVar[int]
    cert_pem: bytes
    def __init__(self, cert_pem: _Optional[bytes] = ...) -> None: ...

class ForgetNodeRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class ForgetNodeReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchNodesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NodesChanged(_message.Message):
    __slots__ = ("reset", "nodes", "removed")
    RESET_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    reset: bool
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    removed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, reset: _Optional[bool] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., removed: _Optional[_Iterable[str]] = ...) -> None: ...

class Invitation(_message.Message):
    __slots__ = ("id", "role", "name", "by", "made_at", "until_at", "used_at", "used_as")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    MADE_AT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_AT_FIELD_NUMBER: _ClassVar[int]
    USED_AT_FIELD_NUMBER: _ClassVar[int]
    USED_AS_FIELD_NUMBER: _ClassVar[int]
    id: str
    role: str
    name: str
    by: str
    made_at: float
    until_at: float
    used_at: float
    used_as: str
    def __init__(self, id: _Optional[str] = ..., role: _Optional[str] = ..., name: _Optional[str] = ..., by: _Optional[str] = ..., made_at: _Optional[float] = ..., until_at: _Optional[float] = ..., used_at: _Optional[float] = ..., used_as: _Optional[str] = ...) -> None: ...

class InviteRequest(_message.Message):
    __slots__ = ("role", "name", "for_s", "by")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FOR_S_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    role: str
    name: str
    for_s: float
    by: str
    def __init__(self, role: _Optional[str] = ..., name: _Optional[str] = ..., for_s: _Optional[float] = ..., by: _Optional[str] = ...) -> None: ...

class InviteReply(_message.Message):
    __slots__ = ("invitation", "token")
    INVITATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    invitation: Invitation
    token: str
    def __init__(self, invitation: _Optional[_Union[Invitation, _Mapping]] = ..., token: _Optional[str] = ...) -> None: ...

class ListInvitationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListInvitationsReply(_message.Message):
    __slots__ = ("invitations",)
    INVITATIONS_FIELD_NUMBER: _ClassVar[int]
    invitations: _containers.RepeatedCompositeFieldContainer[Invitation]
    def __init__(self, invitations: _Optional[_Iterable[_Union[Invitation, _Mapping]]] = ...) -> None: ...

class DeleteInvitationRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DeleteInvitationReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EnrollRequest(_message.Message):
    __slots__ = ("cluster", "token_id", "csr", "nonce", "at", "version", "name", "renew", "look", "proof", "host")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    CSR_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    LOOK_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    token_id: str
    csr: str
    nonce: str
    at: float
    version: str
    name: str
    renew: bool
    look: bool
    proof: str
    host: str
    def __init__(self, cluster: _Optional[str] = ..., token_id: _Optional[str] = ..., csr: _Optional[str] = ..., nonce: _Optional[str] = ..., at: _Optional[float] = ..., version: _Optional[str] = ..., name: _Optional[str] = ..., renew: _Optional[bool] = ..., look: _Optional[bool] = ..., proof: _Optional[str] = ..., host: _Optional[str] = ...) -> None: ...

class EnrollReply(_message.Message):
    __slots__ = ("certificate", "ca", "settings", "version", "proof")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    CA_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    certificate: str
    ca: str
    settings: str
    version: str
    proof: str
    def __init__(self, certificate: _Optional[str] = ..., ca: _Optional[str] = ..., settings: _Optional[str] = ..., version: _Optional[str] = ..., proof: _Optional[str] = ...) -> None: ...

class Certificate(_message.Message):
    __slots__ = ("serial", "role", "name", "from_at", "until_at", "origin", "invitation", "revoked_at", "revoked_by")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FROM_AT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_AT_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    INVITATION_FIELD_NUMBER: _ClassVar[int]
    REVOKED_AT_FIELD_NUMBER: _ClassVar[int]
    REVOKED_BY_FIELD_NUMBER: _ClassVar[int]
    serial: str
    role: str
    name: str
    from_at: float
    until_at: float
    origin: str
    invitation: str
    revoked_at: float
    revoked_by: str
    def __init__(self, serial: _Optional[str] = ..., role: _Optional[str] = ..., name: _Optional[str] = ..., from_at: _Optional[float] = ..., until_at: _Optional[float] = ..., origin: _Optional[str] = ..., invitation: _Optional[str] = ..., revoked_at: _Optional[float] = ..., revoked_by: _Optional[str] = ...) -> None: ...

class ListCertificatesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCertificatesReply(_message.Message):
    __slots__ = ("certificates",)
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    certificates: _containers.RepeatedCompositeFieldContainer[Certificate]
    def __init__(self, certificates: _Optional[_Iterable[_Union[Certificate, _Mapping]]] = ...) -> None: ...

class RevokeCertificatesRequest(_message.Message):
    __slots__ = ("which", "by")
    WHICH_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    which: str
    by: str
    def __init__(self, which: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class RevokeCertificatesReply(_message.Message):
    __slots__ = ("certificates", "cordoned")
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    certificates: _containers.RepeatedCompositeFieldContainer[Certificate]
    cordoned: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, certificates: _Optional[_Iterable[_Union[Certificate, _Mapping]]] = ..., cordoned: _Optional[_Iterable[str]] = ...) -> None: ...
