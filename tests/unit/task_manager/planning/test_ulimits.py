"""Limits of processes in placement, and at submit."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headway.rpc.v1 import common_pb2, resource_manager_pb2
from task_manager import wire
from task_manager.decisions import frame_codec
from task_manager.limits import AdmissionLimits
from task_manager.model import Node, Shape
from task_manager.planning.placement import CpuTasks, choose, fits, full_capacity, shortages
from task_manager.planning.submit_check import SubmitCheck
from task_manager.store import rows
from tests.unit.task_manager.rig import GiB, a_node, a_task

FILES = Shape(100, GiB, ulimits=(("nofile", 65536),))
LOCKED = Shape(100, GiB, ulimits=(("memlock", -1),))
NARROW = a_node("narrow", most_ulimits=(("memlock", 8 << 20), ("nofile", 20_000)))
WIDE = a_node("wide", most_ulimits=(("memlock", -1), ("nofile", 1 << 20)))


@pytest.mark.parametrize(
    ("shape", "node", "want"),
    [
        (FILES, NARROW, False),
        (FILES, WIDE, True),
        (FILES, a_node(), True),  # an engine that was not asked
        (replace(FILES, ulimits=(("nofile", 20_000),)), NARROW, True),
        (replace(FILES, ulimits=(("nofile", 20_001),)), NARROW, False),
        (LOCKED, NARROW, False),
        (LOCKED, WIDE, True),
        (replace(LOCKED, ulimits=(("memlock", 8 << 20),)), NARROW, True),
        (replace(LOCKED, ulimits=(("memlock", 1 << 50), ("nofile", 1))), WIDE, True),
        (replace(LOCKED, ulimits=(("memlock", 1), ("nofile", 1 << 21))), WIDE, False),
        (Shape(100, GiB), NARROW, True),
    ],
)
def test_a_task_fits_where_the_engine_gives_that_much(shape: Shape, node: Node, want: bool) -> None:
    room = full_capacity(node)
    assert fits(shape, room) is want
    assert (shortages(shape, room) == []) is want
    chosen = choose(shape, [room])
    assert (chosen is not None) is want


def test_of_several_machines_an_able_one_is_taken() -> None:
    chosen = choose(FILES, [full_capacity(node, order) for order, node in enumerate((NARROW, WIDE))])
    assert chosen is not None
    assert chosen.node_id == "wide"


def test_at_submit_the_sentence_names_the_nearest_machine_and_its_limit() -> None:
    near = replace(NARROW, id=a_node("near").id, most_ulimits=(("memlock", 1 << 20), ("nofile", 60_000)))
    gate = SubmitCheck([NARROW, near], AdmissionLimits(), CpuTasks.LAST_RESORT)
    (refusal,) = gate.refusals(FILES, 60.0)
    assert refusal.field == "/ulimits"
    assert refusal.sentence == (
        "Under ulimits it asks for nofile 65,536; the nearest machine can't give that: near gives nofile 60,000 at "
        "most."
    )
    (refusal,) = gate.refusals(LOCKED, 60.0)
    assert refusal.sentence == (
        "Under ulimits it asks for memlock unlimited; the nearest machine can't give that: narrow gives memlock 8MiB "
        "at most."
    )
    assert not refusal.for_ever
    assert SubmitCheck([NARROW, WIDE], AdmissionLimits(), CpuTasks.LAST_RESORT).refusals(FILES, 60.0) == []


def test_what_is_too_large_too_is_told_as_such() -> None:
    (refusal,) = SubmitCheck([NARROW], AdmissionLimits(), CpuTasks.LAST_RESORT).refusals(
        replace(FILES, memory_bytes=1 << 50), 60.0
    )
    assert refusal.field == "/resources"


def test_they_come_from_the_messages_and_survive_disk_and_log() -> None:
    asked = [common_pb2.Ulimit(name="nofile", soft=1, hard=65536)]
    shape = wire.shape(common_pb2.Resources(cpu_centi=100, memory_bytes=GiB), ulimits=asked)
    assert shape == FILES
    task = replace(a_task(), shape=shape)
    assert json.loads(rows.task_fixed(task)[14])[4] == [["nofile", 65536]]
    assert rows._shape(100, GiB, 0, "[]", 0, rows._image_json(shape)) == shape
    assert frame_codec._shape_of(json.loads(json.dumps(frame_codec._shape(shape)))) == shape
    message = resource_manager_pb2.Node(id="wide", health="READY", admission="OPEN", incarnation=1, address="wide:7004")
    message.status.capacity.most_ulimits.add(name="memlock", hard=-1)
    message.status.capacity.most_ulimits.add(name="nofile", hard=1 << 20)
    node = wire.node(message)
    assert node.most_ulimits == WIDE.most_ulimits
    assert rows.node_of(rows.node_json(node)) == node
    assert frame_codec._node_of(node.id, json.loads(json.dumps(frame_codec._node(node)))) == node
