from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ImageSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IMAGE_SOURCE_UNKNOWN: _ClassVar[ImageSource]
    IMAGE_SOURCE_MARKET: _ClassVar[ImageSource]
    IMAGE_SOURCE_ENGINE: _ClassVar[ImageSource]
    IMAGE_SOURCE_REGISTRY: _ClassVar[ImageSource]

class NeedKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NEED_KIND_SUCCESS: _ClassVar[NeedKind]
    NEED_KIND_FAILURE: _ClassVar[NeedKind]
    NEED_KIND_ANY: _ClassVar[NeedKind]

class Shell(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHELL_SH: _ClassVar[Shell]
    SHELL_BASH: _ClassVar[Shell]

class Entrypoint(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENTRYPOINT_REPLACE: _ClassVar[Entrypoint]
    ENTRYPOINT_IMAGE: _ClassVar[Entrypoint]

class RunAs(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_AS_ACCOUNT: _ClassVar[RunAs]
    RUN_AS_IMAGE: _ClassVar[RunAs]

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_NORMAL: _ClassVar[Priority]
    PRIORITY_LOW: _ClassVar[Priority]
    PRIORITY_HIGH: _ClassVar[Priority]
IMAGE_SOURCE_UNKNOWN: ImageSource
IMAGE_SOURCE_MARKET: ImageSource
IMAGE_SOURCE_ENGINE: ImageSource
IMAGE_SOURCE_REGISTRY: ImageSource
NEED_KIND_SUCCESS: NeedKind
NEED_KIND_FAILURE: NeedKind
NEED_KIND_ANY: NeedKind
SHELL_SH: Shell
SHELL_BASH: Shell
ENTRYPOINT_REPLACE: Entrypoint
ENTRYPOINT_IMAGE: Entrypoint
RUN_AS_ACCOUNT: RunAs
RUN_AS_IMAGE: RunAs
PRIORITY_NORMAL: Priority
PRIORITY_LOW: Priority
PRIORITY_HIGH: Priority

class Task(_message.Message):
    __slots__ = ("job_id", "name")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("task", "number")
    TASK_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    task: Task
    number: int
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ..., number: _Optional[int] = ...) -> None: ...

class Account(_message.Message):
    __slots__ = ("name", "uid", "gid", "admin", "may_use_image_user", "may_use_high_priority")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GID_FIELD_NUMBER: _ClassVar[int]
    ADMIN_FIELD_NUMBER: _ClassVar[int]
    MAY_USE_IMAGE_USER_FIELD_NUMBER: _ClassVar[int]
    MAY_USE_HIGH_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: int
    gid: int
    admin: bool
    may_use_image_user: bool
    may_use_high_priority: bool
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[int] = ..., gid: _Optional[int] = ..., admin: _Optional[bool] = ..., may_use_image_user: _Optional[bool] = ..., may_use_high_priority: _Optional[bool] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("cpu_centi", "memory_bytes", "shm_bytes", "gpus", "gpu_models", "gpu_memory_bytes", "gpu_share_bytes")
    CPU_CENTI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHM_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_MODELS_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPU_SHARE_BYTES_FIELD_NUMBER: _ClassVar[int]
    cpu_centi: int
    memory_bytes: int
    shm_bytes: int
    gpus: int
    gpu_models: _containers.RepeatedScalarFieldContainer[str]
    gpu_memory_bytes: int
    gpu_share_bytes: int
    def __init__(self, cpu_centi: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., shm_bytes: _Optional[int] = ..., gpus: _Optional[int] = ..., gpu_models: _Optional[_Iterable[str]] = ..., gpu_memory_bytes: _Optional[int] = ..., gpu_share_bytes: _Optional[int] = ...) -> None: ...

class TaskSpec(_message.Message):
    __slots__ = ("name", "needs", "image", "script", "argv", "shell", "entrypoint", "env", "working_dir", "datasets", "resources", "timeout_s", "grace_s", "retries", "user", "output_path", "network", "log_limit_bytes", "kill_at_log_limit", "image_digest", "image_source", "image_architecture", "image_require_cuda", "image_bytes", "dataset_pins", "code", "job_network", "ulimits", "local", "secrets")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    SHELL_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_PATH_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    LOG_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    KILL_AT_LOG_LIMIT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    IMAGE_SOURCE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_REQUIRE_CUDA_FIELD_NUMBER: _ClassVar[int]
    IMAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATASET_PINS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    JOB_NETWORK_FIELD_NUMBER: _ClassVar[int]
    ULIMITS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    name: str
    needs: _containers.RepeatedCompositeFieldContainer[Need]
    image: str
    script: str
    argv: Argv
    shell: Shell
    entrypoint: Entrypoint
    env: _containers.RepeatedCompositeFieldContainer[EnvVar]
    working_dir: str
    datasets: _containers.RepeatedScalarFieldContainer[str]
    resources: Resources
    timeout_s: float
    grace_s: float
    retries: int
    user: RunAs
    output_path: str
    network: bool
    log_limit_bytes: int
    kill_at_log_limit: bool
    image_digest: str
    image_source: ImageSource
    image_architecture: str
    image_require_cuda: str
    image_bytes: int
    dataset_pins: _containers.RepeatedCompositeFieldContainer[DatasetPin]
    code: str
    job_network: bool
    ulimits: _containers.RepeatedCompositeFieldContainer[Ulimit]
    local: LocalHold
    secrets: _containers.RepeatedCompositeFieldContainer[SecretUse]
    def __init__(self, name: _Optional[str] = ..., needs: _Optional[_Iterable[_Union[Need, _Mapping]]] = ..., image: _Optional[str] = ..., script: _Optional[str] = ..., argv: _Optional[_Union[Argv, _Mapping]] = ..., shell: _Optional[_Union[Shell, str]] = ..., entrypoint: _Optional[_Union[Entrypoint, str]] = ..., env: _Optional[_Iterable[_Union[EnvVar, _Mapping]]] = ..., working_dir: _Optional[str] = ..., datasets: _Optional[_Iterable[str]] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., timeout_s: _Optional[float] = ..., grace_s: _Optional[float] = ..., retries: _Optional[int] = ..., user: _Optional[_Union[RunAs, str]] = ..., output_path: _Optional[str] = ..., network: _Optional[bool] = ..., log_limit_bytes: _Optional[int] = ..., kill_at_log_limit: _Optional[bool] = ..., image_digest: _Optional[str] = ..., image_source: _Optional[_Union[ImageSource, str]] = ..., image_architecture: _Optional[str] = ..., image_require_cuda: _Optional[str] = ..., image_bytes: _Optional[int] = ..., dataset_pins: _Optional[_Iterable[_Union[DatasetPin, _Mapping]]] = ..., code: _Optional[str] = ..., job_network: _Optional[bool] = ..., ulimits: _Optional[_Iterable[_Union[Ulimit, _Mapping]]] = ..., local: _Optional[_Union[LocalHold, _Mapping]] = ..., secrets: _Optional[_Iterable[_Union[SecretUse, _Mapping]]] = ...) -> None: ...

class SecretUse(_message.Message):
    __slots__ = ("name", "env", "file")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    name: str
    env: str
    file: str
    def __init__(self, name: _Optional[str] = ..., env: _Optional[str] = ..., file: _Optional[str] = ...) -> None: ...

class LocalHold(_message.Message):
    __slots__ = ("node_id", "gpu_uuids", "key_hash")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    GPU_UUIDS_FIELD_NUMBER: _ClassVar[int]
    KEY_HASH_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    gpu_uuids: _containers.RepeatedScalarFieldContainer[str]
    key_hash: str
    def __init__(self, node_id: _Optional[str] = ..., gpu_uuids: _Optional[_Iterable[str]] = ..., key_hash: _Optional[str] = ...) -> None: ...

class Ulimit(_message.Message):
    __slots__ = ("name", "soft", "hard")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOFT_FIELD_NUMBER: _ClassVar[int]
    HARD_FIELD_NUMBER: _ClassVar[int]
    name: str
    soft: int
    hard: int
    def __init__(self, name: _Optional[str] = ..., soft: _Optional[int] = ..., hard: _Optional[int] = ...) -> None: ...

class DatasetPin(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class Need(_message.Message):
    __slots__ = ("task", "on")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    task: str
    on: NeedKind
    def __init__(self, task: _Optional[str] = ..., on: _Optional[_Union[NeedKind, str]] = ...) -> None: ...

class EnvVar(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Argv(_message.Message):
    __slots__ = ("words",)
    WORDS_FIELD_NUMBER: _ClassVar[int]
    words: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, words: _Optional[_Iterable[str]] = ...) -> None: ...

class EndReason(_message.Message):
    __slots__ = ("word", "exit_code", "signal", "detail")
    WORD_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    word: str
    exit_code: int
    signal: int
    detail: str
    def __init__(self, word: _Optional[str] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class WaitReason(_message.Message):
    __slots__ = ("word", "sentence")
    WORD_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    word: str
    sentence: str
    def __init__(self, word: _Optional[str] = ..., sentence: _Optional[str] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ("pointer", "message", "line", "column", "word", "allowed", "suggestion")
    POINTER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    WORD_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    SUGGESTION_FIELD_NUMBER: _ClassVar[int]
    pointer: str
    message: str
    line: int
    column: int
    word: str
    allowed: _containers.RepeatedScalarFieldContainer[str]
    suggestion: str
    def __init__(self, pointer: _Optional[str] = ..., message: _Optional[str] = ..., line: _Optional[int] = ..., column: _Optional[int] = ..., word: _Optional[str] = ..., allowed: _Optional[_Iterable[str]] = ..., suggestion: _Optional[str] = ...) -> None: ...

class Phases(_message.Message):
    __slots__ = ("scheduling_s", "dispatch_s", "startup_s", "preparing_s", "running_s")
    SCHEDULING_S_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_S_FIELD_NUMBER: _ClassVar[int]
    STARTUP_S_FIELD_NUMBER: _ClassVar[int]
    PREPARING_S_FIELD_NUMBER: _ClassVar[int]
    RUNNING_S_FIELD_NUMBER: _ClassVar[int]
    scheduling_s: float
    dispatch_s: float
    startup_s: float
    preparing_s: float
    running_s: float
    def __init__(self, scheduling_s: _Optional[float] = ..., dispatch_s: _Optional[float] = ..., startup_s: _Optional[float] = ..., preparing_s: _Optional[float] = ..., running_s: _Optional[float] = ...) -> None: ...
