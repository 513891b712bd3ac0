from headway.rpc.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
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
    __slots__ = ("source", "digest", "nodes")
    class Source(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SOURCE_UNKNOWN: _ClassVar[ResolveImageReply.Source]
        SOURCE_MARKET: _ClassVar[ResolveImageReply.Source]
        SOURCE_ENGINE: _ClassVar[ResolveImageReply.Source]
        SOURCE_REGISTRY: _ClassVar[ResolveImageReply.Source]
    SOURCE_UNKNOWN: ResolveImageReply.Source
    SOURCE_MARKET: ResolveImageReply.Source
    SOURCE_ENGINE: ResolveImageReply.Source
    SOURCE_REGISTRY: ResolveImageReply.Source
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    source: ResolveImageReply.Source
    digest: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, source: _Optional[_Union[ResolveImageReply.Source, str]] = ..., digest: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ...) -> None: ...
