"""What no machine could ever run, and the sentences that say why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.states import Admission
from task_manager.model import Gpu, Shape
from task_manager.planning.placement import CpuTasks, FreeResources, full_capacity
from task_manager.planning.reasons.explain import ClusterSnapshot, wait_reasons
from task_manager.planning.reasons.feasibility import could_ever_run, waits_for_sick
from tests.unit.task_manager.rig import GiB, a_node, a_task, gpus_of

CPU_ONLY = Shape(100, GiB)


def rooms(*nodes: Any) -> list[FreeResources]:
    return [full_capacity(node, order) for order, node in enumerate(nodes)]


@pytest.mark.parametrize(
    ("task", "nodes", "want"),
    [
        ({"gpus": 9}, [{"gpus": 8}, {"gpus": 4}], "asks for 9 GPUs, the largest has 8"),
        ({"memory": 1024 * GiB}, [{}], "asks for 1TiB of memory, the largest has 64GiB"),
        ({"gpus": 1, "models": ("H100",)}, [{"gpus": 8}], "asks for 1 GPU of model H100, the largest has 0"),
        ({"cpu": 900}, [{}], "asks for 9 CPUs, the largest has 8"),
        ({"gpus": 2, "cpu": 800}, [{"gpus": 2, "cpu": 400}, {"cpu": 800}], "together"),
    ],
)
def test_what_no_machine_could_ever_run_is_told_in_numbers(
    task: dict[str, Any], nodes: list[dict[str, Any]], want: str
) -> None:
    there = [a_node(f"n{i}", **facts) for i, facts in enumerate(nodes)]
    verdict = could_ever_run(a_task(**task).shape, there)
    assert not verdict.satisfiable
    assert want in verdict.sentence
    waits = wait_reasons(a_task(**task), ClusterSnapshot(rooms(*there)), ahead=0)
    assert [reason.word for reason in waits] == ["no_such_node_yet"]
    assert want in waits[0].sentence


@pytest.mark.parametrize(
    ("task", "nodes", "want"),
    [
        (
            {"cpu": 800},
            [{"gpus": 2}, {"cpu": 400}],
            "Only machines with GPUs could run it, and they are kept for tasks that ask for GPUs. The others are too "
            "small: it asks for 8 CPUs, the largest has 4.",
        ),
        (
            {"cpu": 400, "memory": 32 * GiB},
            [{"gpus": 2}, {"cpu": 400, "memory": 16 * GiB}, {"cpu": 200}],
            "Only machines with GPUs could run it, and they are kept for tasks that ask for GPUs.",
        ),
        ({}, [{"gpus": 1}], "All machines have GPUs and are kept for tasks that ask for GPUs."),
        (
            {"cpu": 900},
            [{"gpus": 1}, {}],
            "No machine is big enough: it asks for 9 CPUs, the largest has 8. The closest machine, n1, has 8 of 9 "
            "CPUs.",
        ),
    ],
)
def test_that_gpu_nodes_are_kept_is_the_reason_where_only_they_would_do(
    task: dict[str, Any], nodes: list[dict[str, Any]], want: str
) -> None:
    there = [a_node(f"n{i}", **facts) for i, facts in enumerate(nodes)]
    assert could_ever_run(a_task(**task).shape, there, CpuTasks.NEVER).sentence == want
    (only,) = wait_reasons(a_task(**task), ClusterSnapshot(rooms(*there), CpuTasks.NEVER), ahead=0)
    assert (only.word, only.sentence) == ("no_such_node_yet", want)


@pytest.mark.parametrize(
    ("models", "want"),
    [
        (
            ("B200",),
            "the largest has 0 (there are NVIDIA A40, NVIDIA H200; did you mean NVIDIA H200?). {}0 of 3 GPUs of model "
            "B200.",
        ),
        (("Gaudi",), "the largest has 0 (there are NVIDIA A40, NVIDIA H200). {}0 of 3 GPUs of model Gaudi."),
        (("A40",), "asks for 3 GPUs of model A40, the largest has 2. {}2 of 3 GPUs of model A40."),
    ],
)
def test_an_unknown_model_is_told_with_those_that_there_are(models: tuple[str, ...], want: str) -> None:
    cards = (*gpus_of("n1", 2, "NVIDIA A40"), *gpus_of("n2", 2, "NVIDIA H200"))
    verdict = could_ever_run(a_task(gpus=3, models=models).shape, [a_node(gpus=cards)])
    assert verdict.sentence.endswith(want.format("The closest machine, n1, has "))


def test_a_machines_memory_is_told_in_round_numbers() -> None:
    verdict = could_ever_run(a_task(memory=64 * GiB).shape, [a_node(memory=24_012_684_698)])
    assert (
        verdict.sentence
        == "No machine is big enough: it asks for 64GiB of memory, the largest has 22.3GiB. {}".format(
            "The closest machine, n1, has 22.3GiB of 64GiB of memory."
        )
    )


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        ({"gpus": 1}, "asks for 1 GPU with 25GiB, the largest has 0 (the largest card has 24GiB). "
         "{}0 of 1 GPU with 25GiB."),
        ({"gpus": 2, "models": ("A40",)},
         "asks for 2 GPUs of model A40 with 25GiB each, the largest has 0 (the largest card of this model has "
         "16GiB). {}0 of 2 GPUs of model A40 with 25GiB each."),
        ({"gpus": 1, "models": ("B1",)},
         "asks for 1 GPU of model B1 with 25GiB, the largest has 0 (there are A30, A40). {}0 of 1 GPU of model B1 with "
         "25GiB."),
        ({"gpus": 9, "gpu_memory": GiB}, "asks for 9 GPUs with 1GiB each, the largest has 2. "
         "{}2 of 9 GPUs with 1GiB each."),
    ],
)  # fmt: skip
def test_cards_that_are_too_small_are_told_with_the_largest_that_there_is(asked: dict[str, Any], want: str) -> None:
    cards = (*gpus_of("n1", 1, "A30", 24 * GiB), *gpus_of("n2", 1, "A40", 16 * GiB))
    verdict = could_ever_run(a_task(**{"gpu_memory": 25 * GiB, **asked}).shape, [a_node(gpus=cards)])
    assert verdict.sentence == "No machine is big enough: it " + want.format("The closest machine, n1, has ")


def test_without_machines_it_waits_for_workers() -> None:
    assert could_ever_run(CPU_ONLY, []).satisfiable
    (only,) = wait_reasons(a_task(), ClusterSnapshot([]), ahead=3)
    assert only.word == "no_such_node_yet"
    assert "waits for workers" in only.sentence


@pytest.mark.parametrize(
    ("task", "nodes", "want"),
    [
        # Q8: each part is somewhere.
        ({"gpus": 2, "cpu": 1200}, [{"gpus": 2}, {"cpu": 1600}], "The closest machine, n0, has 8 of 12 CPUs."),
        (
            {"gpus": 4, "cpu": 1200, "memory": 64 * GiB},
            [{"gpus": 2, "cpu": 1600}, {"gpus": 4, "memory": 32 * GiB}, {"cpu": 3200, "memory": 64 * GiB}],
            "The closest machine, n0, has 2 of 4 GPUs.",
        ),
        ({"gpus": 2}, [{}, {"gpus": 1}], "The closest machine, n1, has 1 of 2 GPUs."),
        # Of two that lack as much, the open one is told.
        (
            {"cpu": 900},
            [{"admission": Admission.DRAINED}, {}],
            "The closest machine, n1, has 8 of 9 CPUs.",
        ),
        ({"cpu": 900}, [{"admission": Admission.DRAINED}], "The closest machine, n0, has 8 of 9 CPUs. n0 is DRAINED."),
        (
            {"gpus": 3},
            [{"gpus": (Gpu("x", "A40", GiB, sick=True), Gpu("y", "A40", GiB))}],
            "The closest machine, n0, has 2 of 3 GPUs (1 of them does not work).",
        ),
    ],
)
def test_the_machine_that_lacks_least_is_named_with_what_it_has(
    task: dict[str, Any], nodes: list[dict[str, Any]], want: str
) -> None:
    there = [a_node(f"n{i}", **facts) for i, facts in enumerate(nodes)]
    verdict = could_ever_run(a_task(**task).shape, there)
    assert (verdict.satisfiable, verdict.sentence.endswith(want)) == (False, True), verdict.sentence
    (only,) = wait_reasons(a_task(**task), ClusterSnapshot(rooms(*there)), ahead=0)
    assert only.sentence == verdict.sentence


def test_a_submit_is_told_which_broken_cards_it_waits_for() -> None:
    """G3: it was taken without a word, as if the cards were busy."""
    well, hot = Gpu("GPU-1", "A40", GiB, 0), Gpu("GPU-2", "A40", GiB, 1, sick=True, fault="too_hot")
    nodes = [a_node("n0", gpus=(well, hot)), a_node("n1", gpus=1)]
    asked = a_task(gpus=2).shape
    assert could_ever_run(asked, nodes).satisfiable
    assert waits_for_sick(asked, nodes) == (
        "It asks for 2 GPUs, and waits for GPUs that do not work. "
        "1 GPU of n0 does not work: GPU 1 (GPU-2), it is too hot."
    )
    assert waits_for_sick(a_task(gpus=1).shape, nodes) == ""
    assert waits_for_sick(a_task().shape, nodes) == ""
    assert waits_for_sick(a_task(gpus=3).shape, nodes) == "", "that is refused"
    busy = replace(well, busy_outside=True)
    assert waits_for_sick(a_task(gpus=1).shape, [a_node("n0", gpus=(busy, hot))]) == "", "it is only busy"
