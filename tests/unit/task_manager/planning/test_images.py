"""Images in placement, and which are brought ahead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.ids import NodeId
from headway.model.reasons import WaitWord
from headway.rpc.v1 import common_pb2, resource_manager_pb2, task_manager_pb2
from task_manager import wire
from task_manager.dispatch.image_prefetch import ImagePrefetchPlanner
from task_manager.model import Node, Shape
from task_manager.order.policy import AgingSjf
from task_manager.order.queue import TaskQueue
from task_manager.planning.image_forecast import ForecastImage, QueueHead, images_needed
from task_manager.planning.placement import FreeResources, choose, fits, full_capacity, shortages
from task_manager.planning.reasons.explain import ClusterSnapshot, wait_reasons
from task_manager.planning.reasons.feasibility import could_ever_run
from tests.support.clock import FakeClock
from tests.support.scheduling import greedy
from tests.support.steps import counted
from tests.unit.task_manager.rig import GiB, TaskManagerRig, a_node, a_task, a_task_manager, gpus_of

D1, D2 = "sha256:" + "1" * 64, "sha256:" + "2" * 64
CUDA = "cuda>=12.4"


def rooms(*nodes: Node) -> list[FreeResources]:
    return [full_capacity(node, order) for order, node in enumerate(nodes)]


def wanted(name: str = "lab/tool:1", digest: str = D1) -> ForecastImage:
    return ForecastImage(name, digest, common_pb2.IMAGE_SOURCE_MARKET, "ann")


# -- where an image can run ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "node", "want"),
    [
        (Shape(100, GiB, architecture="arm64"), a_node(architecture="amd64"), False),
        (Shape(100, GiB, architecture="arm64"), a_node(architecture="arm64"), True),
        (Shape(100, GiB, architecture="arm64"), a_node(), True),
        (Shape(100, GiB), a_node(architecture="amd64"), True),
        (Shape(100, GiB, 1, require_cuda=CUDA), a_node(gpus=1, driver_version="535.1", cuda_version="12.2"), False),
        (Shape(100, GiB, 1, require_cuda=CUDA), a_node(gpus=1, driver_version="550.1", cuda_version="12.4"), True),
        (Shape(100, GiB, 1, require_cuda=CUDA), a_node(gpus=1), True),
        (Shape(100, GiB, image=D1, needs_image_there=True), a_node(), False),
        (Shape(100, GiB, image=D1, needs_image_there=True), a_node(images=frozenset({D1})), True),
        (Shape(100, GiB, image=D1), a_node(), True),
    ],
)
def test_an_image_keeps_a_task_from_nodes_that_cannot_run_it(shape: Shape, node: Node, want: bool) -> None:
    room = full_capacity(node)
    assert fits(shape, room) is want
    assert (not shortages(shape, room)) is want
    assert (choose(shape, [room]) is not None) is want


@pytest.mark.parametrize(
    ("shape", "nodes", "want"),
    [
        (
            Shape(100, GiB, architecture="arm64"),
            [a_node("n1", architecture="amd64"), a_node("n2", architecture="amd64")],
            "Its image is for arm64 machines; n1 is amd64; n2 is amd64.",
        ),
        (
            Shape(100, GiB, 1, require_cuda=CUDA),
            [a_node("n1", gpus=1, driver_version="535.104", cuda_version="12.2"), a_node("n2")],
            "Its image needs a driver for CUDA 12.4 or newer; n1 has CUDA 12.2 (driver 535.104).",
        ),
        (
            Shape(100, GiB, image=D1, needs_image_there=True),
            [a_node("n1")],
            "No machine that could run it has its image, and the image can't be fetched from anywhere: load it on one, "
            "or put it into the image market.",
        ),
        (
            Shape(100, 999 * GiB, architecture="arm64"),
            [a_node("n1", architecture="amd64")],
            "No machine is big enough: it asks for 999GiB of memory, the largest has 64GiB. The closest "
            "machine, n1, has 64GiB of 999GiB of memory, and its image can't run there (n1 is amd64).",
        ),
    ],
)
def test_a_task_whose_image_runs_nowhere_is_refused_with_the_reason(shape: Shape, nodes: list[Node], want: str) -> None:
    verdict = could_ever_run(shape, nodes)
    assert (verdict.satisfiable, verdict.sentence) == (False, want)


@pytest.mark.parametrize(
    ("shape", "word"),
    [
        (Shape(100, GiB, image=D1, needs_image_there=True), WaitWord.IMAGE_MISSING),
        (Shape(100, GiB, architecture="arm64"), WaitWord.NO_SUCH_NODE_YET),
    ],
)
def test_a_waiting_task_says_that_its_image_is_missing(shape: Shape, word: WaitWord) -> None:
    task = replace(a_task(), shape=shape)
    found = wait_reasons(task, ClusterSnapshot(rooms(a_node(architecture="amd64"))), ahead=0)
    assert [reason.word for reason in found] == [word]


# -- locality -------------------------------------------------------------------------------------------


def test_of_equal_nodes_the_one_that_has_the_image() -> None:
    nodes = rooms(a_node("n1"), a_node("n2", images=frozenset({D1})), a_node("n3"))
    choice = choose(Shape(100, GiB, image=D1), nodes)
    assert choice is not None
    assert choice.node_id == "n2"
    other = choose(Shape(100, GiB, image=D2), nodes)
    assert other is not None
    assert other.node_id == "n1"


def test_the_smallest_node_that_suffices_comes_before_the_image() -> None:
    nodes = rooms(a_node("big", gpus=8, images=frozenset({D1})), a_node("small", gpus=1))
    choice = choose(Shape(100, GiB, 1, image=D1), nodes)
    assert choice is not None
    assert choice.node_id == "small"


def test_a_pass_over_10000_tasks_of_many_images_on_100_nodes_stays_quick() -> None:
    """What must not happen is that each task looks at each node."""
    queue = TaskQueue(AgingSjf())
    for number in range(10_000):
        shape = Shape(400, GiB, 1, architecture="amd64", require_cuda=CUDA, image=f"sha256:{number % 40:064}")
        queue.add(replace(a_task(f"t{number}", at=float(number)), shape=shape), runnable=True)
    nodes = [
        a_node(f"n{i}", gpus=gpus_of(f"n{i}", 2), architecture="amd64", driver_version="550.1", cuda_version="12.4")
        for i in range(100)
    ]
    with counted() as steps:
        plan = greedy(queue, rooms(*nodes))
    assert len(plan.placements) == 200
    assert steps.taken < 80 * 10_000


# -- from the wire and through a restart ----------------------------------------------------------------


def test_a_node_and_a_task_from_the_wire() -> None:
    message = resource_manager_pb2.Node(id="n1")
    message.status.capacity.architecture = "arm64"
    message.status.capacity.cuda_version = "12.2"
    message.status.engine_images.add(id=D1, repo_digests=[f"docker.io/a/b@{D2}"])
    node = wire.node(message)
    assert (node.architecture, node.cuda_version, node.images) == ("arm64", "12.2", frozenset({D1, D2}))
    resources = common_pb2.Resources(cpu_centi=100)
    engine = wire.shape(resources, digest=D1, source=common_pb2.IMAGE_SOURCE_ENGINE, require_cuda=CUDA)
    assert (engine.image, engine.needs_image_there, engine.require_cuda) == (D1, True, "")
    unpinned = wire.shape(resources, digest="", source=common_pb2.IMAGE_SOURCE_UNKNOWN)
    assert unpinned.is_plain


async def test_what_an_image_asks_outlives_a_restart(clock: FakeClock, tmp_path: Path) -> None:
    shape = Shape(100, GiB, 0, architecture="arm64", image=D1, needs_image_there=True)
    task = replace(a_task(), shape=shape)
    async with a_task_manager(tmp_path, clock) as rig:
        await rig.nodes(a_node(architecture="amd64"))
        await rig.enqueue(task)
        await rig.restart()
        assert rig.engine.state.tasks[task.id].shape == shape
        node = a_node(architecture="arm64", images=frozenset({D1}))
        await rig.nodes(node)
        await rig.beat()
        assert rig.state(task.id) == "RUNNING"


async def test_check_resources_knows_the_image(clock: FakeClock, tmp_path: Path) -> None:
    request = task_manager_pb2.CheckResourcesRequest()
    for architecture in ("amd64", "arm64"):
        request.shapes.add(resources=common_pb2.Resources(cpu_centi=100), timeout_s=60, image_architecture=architecture)
    async with a_task_manager(tmp_path, clock) as rig:
        await rig.nodes(a_node(architecture="amd64"))
        reply = await rig.queries.check(request)
    assert [len(verdict.refusals) for verdict in reply.verdicts] == [0, 1]


# -- ahead of the start ---------------------------------------------------------------------------------


def test_up_to_four_suitable_nodes_all_get_the_image() -> None:
    heads = [QueueHead(Shape(100, GiB, architecture="amd64", image=D1), wanted())]
    nodes = [a_node(f"n{i}", architecture="amd64" if i < 4 else "arm64") for i in range(6)]
    assert set(images_needed(heads, rooms(*nodes))) == {"n0", "n1", "n2", "n3"}


def test_of_more_nodes_the_three_likeliest() -> None:
    heads = [QueueHead(Shape(100, GiB, 1, image=D1), wanted())]
    nodes = rooms(*(a_node(f"n{i}", gpus=8 - i) for i in range(6)))
    nodes[5].gpus.clear()  # all in use
    assert set(images_needed(heads, nodes)) == {"n4", "n3", "n2"}
    booked = [replace(heads[0], node_id=NodeId("n5"))]
    assert set(images_needed(booked, nodes)) == {"n5", "n4", "n3"}, "first of all where it has its place"


def test_a_list_is_in_the_order_of_the_queue_and_names_an_image_once() -> None:
    shape = Shape(100, GiB)
    heads = [
        QueueHead(replace(shape, image=D2), wanted("second", D2)),
        QueueHead(replace(shape, image=D1), wanted("first", D1)),
        QueueHead(replace(shape, image=D2, cpu_centi=200), wanted("second", D2)),
    ]
    found = images_needed(heads, rooms(a_node()))
    assert [image.name for image in found[a_node().id]] == ["second", "first"]


def spec(source: int, digest: str = D1) -> bytes:
    message = task_manager_pb2.EnqueueTask()
    message.spec.image, message.spec.image_digest = "lab/tool:1", digest
    message.spec.image_source = common_pb2.ImageSource.ValueType(source)
    message.owner.name = "ann"
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("source", "digest", "want"),
    [
        (common_pb2.IMAGE_SOURCE_MARKET, D1, common_pb2.IMAGE_SOURCE_MARKET),
        (common_pb2.IMAGE_SOURCE_UNKNOWN, D1, common_pb2.IMAGE_SOURCE_REGISTRY),  # a digest that was written
        (common_pb2.IMAGE_SOURCE_UNKNOWN, "", None),
        (common_pb2.IMAGE_SOURCE_ENGINE, D1, None),
    ],
)
def test_what_is_brought_ahead_has_a_digest(source: int, digest: str, want: int | None) -> None:
    found = wire.wanted_image(spec(source, digest))
    assert (found.source if found else None) == want


async def queued(
    rig: TaskManagerRig, source: int = common_pb2.IMAGE_SOURCE_MARKET, **node: Any
) -> ImagePrefetchPlanner:
    """A task that has to wait for a running one, and its image's prefetcher."""
    await rig.nodes(a_node("n1", cpu=100, **node), a_node("n2", cpu=50))
    await rig.beat("n1")
    await rig.beat("n2")
    shape = Shape(100, GiB, image=D1, needs_image_there=source == common_pb2.IMAGE_SOURCE_ENGINE)
    await rig.enqueue(a_task("first"))
    await rig.enqueue(replace(a_task("second"), shape=shape), spec=spec(source))
    return ImagePrefetchPlanner(rig.engine, rig.db, rig.clock, rig.workers, rig.dispatcher.address)


async def test_a_worker_is_told_once_and_again_after_its_restart(clock: FakeClock, tmp_path: Path) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        prefetcher = await queued(rig)
        for _ in range(3):
            await prefetcher.round()
        assert rig.workers.wishes == [("n1:7004", ["lab/tool:1"])]
        await rig.beat("n1", incarnation=2)
        await prefetcher.round()
        assert len(rig.workers.wishes) == 2


async def test_a_list_that_did_not_arrive_is_sent_again_and_one_that_is_over_is_emptied(
    clock: FakeClock, tmp_path: Path
) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        prefetcher = await queued(rig)
        rig.workers.away.add("n1:7004")
        await prefetcher.round()
        rig.workers.away.clear()
        await prefetcher.round()
        await rig.cancel(a_task("second").id)
        await prefetcher.round()
        await prefetcher.round()
        assert rig.workers.wishes == [("n1:7004", ["lab/tool:1"]), ("n1:7004", [])]


async def test_what_only_engines_have_is_not_sent_for(clock: FakeClock, tmp_path: Path) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        prefetcher = await queued(rig, common_pb2.IMAGE_SOURCE_ENGINE, images=frozenset({D1}))
        await prefetcher.round()
        assert rig.workers.wishes == []
