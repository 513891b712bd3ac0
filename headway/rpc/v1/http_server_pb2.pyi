from headway.rpc.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
