"""Random calls of all gRPC methods of one address, with the cluster's token: by reflection of the generated code."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from headway.rpc.errors_map import TOKEN_KEY
from headway.rpc.v1 import http_server_pb2, job_manager_pb2, resource_manager_pb2, task_manager_pb2, worker_pb2

_MODULES: dict[str, Any] = {
    "httpserver": http_server_pb2,
    "job_manager": job_manager_pb2,
    "task_manager": task_manager_pb2,
    "resource_manager": resource_manager_pb2,
    "worker": worker_pb2,
}
# A stream that has begun well goes on; nobody waits for its end.
_PATIENCE_S = 1.0
_BAD = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS}
_TEXTS = ("", "a", "n1", "../x", "\x00", "x" * 5_000, "\N{GRINNING FACE}", "01j0000000000000000000000")
_DEEPEST = 4


def found(service: str, address: str, token: str, chance: random.Random, each: int) -> list[str]:
    """Sends ``each`` messages to each method; one line for each answer that tells of a fault inside."""
    findings = []
    with grpc.insecure_channel(address) as channel:
        for method in _methods(service):
            for data in _messages(method, chance, each):
                said = _said(channel, method, data, token)
                if said:
                    findings.append(f"{method.full_name} {data[:200]!r}: {said}")
    return findings


def _methods(service: str) -> Iterator[MethodDescriptor]:
    file = _MODULES[service].DESCRIPTOR
    services: list[ServiceDescriptor] = list(file.services_by_name.values())
    for one in services:
        yield from one.methods


def _messages(method: MethodDescriptor, chance: random.Random, count: int) -> Iterator[bytes]:
    kind = GetMessageClass(method.input_type)
    yield b""
    for number in range(count):
        match number % 3:
            case 0:
                yield chance.randbytes(chance.randint(1, 80))
            case 1:
                yield _filled(kind(), chance).SerializeToString()
            case _:
                data = bytearray(_filled(kind(), chance).SerializeToString() or b"\x0a")
                for _ in range(chance.randint(1, 4)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
                yield bytes(data)


def _filled(message: Message, chance: random.Random, depth: int = 0) -> Message:
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.4:
            continue
        entry = field.message_type is not None and field.message_type.GetOptions().map_entry
        if entry or (field.message_type is not None and depth >= _DEEPEST):
            continue
        if field.message_type is not None:
            inner = getattr(message, field.name)
            _filled(inner.add() if field.is_repeated else inner, chance, depth + 1)
        elif field.is_repeated:
            getattr(message, field.name).append(_scalar(field, chance))
        else:
            setattr(message, field.name, _scalar(field, chance))
    return message


def _scalar(field: Any, chance: random.Random) -> Any:
    kinds = FieldDescriptor
    match field.cpp_type:
        case kinds.CPPTYPE_STRING:
            return chance.randbytes(5) if field.type == kinds.TYPE_BYTES else chance.choice(_TEXTS)
        case kinds.CPPTYPE_BOOL:
            return chance.random() < 0.5
        case kinds.CPPTYPE_DOUBLE | kinds.CPPTYPE_FLOAT:
            return chance.choice((0.0, -1.0, 1e300, float("nan"), float("inf"), 1.5))
        case kinds.CPPTYPE_ENUM:
            return chance.choice((0, 1, 2, 99))
        case kinds.CPPTYPE_INT32 | kinds.CPPTYPE_INT64:
            return chance.choice((0, 1, -1, 2**31 - 1))
    return chance.choice((0, 1, 2**31, 2**32 - 1))


def _said(channel: grpc.Channel, method: MethodDescriptor, data: bytes, token: str) -> str:
    path = f"/{method.containing_service.full_name}/{method.name}"
    metadata = ((TOKEN_KEY, token.encode()),)
    asks: Any = iter([data]) if method.client_streaming else data
    kinds: dict[tuple[bool, bool], Any] = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, False): channel.stream_unary,
        (True, True): channel.stream_stream,
    }
    call: Any = kinds[method.client_streaming, method.server_streaming](path)
    try:
        answer: Any = call(asks, metadata=metadata, timeout=_PATIENCE_S)
        if method.server_streaming:
            next(answer, None)
            answer.cancel()
    except grpc.RpcError as error:
        code = error.code()
        return f"{code.name}: {error.details()}" if code in _BAD else ""
    return ""
