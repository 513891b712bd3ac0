"""Messages with fields that no .proto file has: for the tests of tables."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor


def widened(file: FileDescriptor, **added: dict[str, str]) -> list[Any]:
    """The messages named, each with more fields (name: type, such as ``TYPE_DOUBLE``) that may be unset."""
    pool = descriptor_pool.DescriptorPool()

    def add(one: FileDescriptor, proto: descriptor_pb2.FileDescriptorProto) -> None:
        for needed in one.dependencies:
            if needed.name not in seen:
                seen.add(needed.name)
                plain = descriptor_pb2.FileDescriptorProto()
                needed.CopyToProto(plain)
                add(needed, plain)
        pool.Add(proto)

    seen: set[str] = set()
    proto = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(proto)
    for message in proto.message_type:
        for number, (name, kind) in enumerate(added.get(message.name, {}).items(), 900):
            index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
            message.field.add(
                name=name, number=number, type=kind, label="LABEL_OPTIONAL", oneof_index=index, proto3_optional=True
            )
    add(file, proto)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}")) for name in added]
