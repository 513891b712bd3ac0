"""Queues for GPUs that a person's own process on a machine is to hold: a job of one task without a container.

Queue, order, promises, limits and usage hold for it as for any task (docs/adr/0055).
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterator, Sequence

from headway.errors import InvalidInput, NotFound, Problem, Unavailable, Unsatisfiable
from headway.jobfile import fields
from headway.logs import get_logger
from headway.model.gpu_names import is_model, is_slice
from headway.rpc import convert
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.units import counted

from ..auth.model import Account
from ..auth.views import account_to_pb
from ..peers.clients import SUBMIT_S, ServiceClients
from ..schemas.gpu_holds import GpuHold, GpuHoldRequest
from . import job_file

log = get_logger(__name__)

TASK = "gpus"
_COMMAND_CHARACTERS = 4_000


class GpuHolds:
    """See the module. ``nodes`` answers the machines as ResourceManager reported them."""

    def __init__(self, services: ServiceClients, nodes: Callable[[], Sequence[rm.Node]], cluster: str) -> None:
        self._services = services
        self._nodes = nodes
        self._cluster = cluster

    async def ask(self, account: Account, wanted: GpuHoldRequest) -> GpuHold:
        """Safe twice with the same ``key_hash``.

        Raises:
            InvalidInput, NotFound, Unsatisfiable: it could never be given; nothing is stored.
            HeadwayError: as for a submission.
        """
        timeout_s = _duration(wanted.timeout, "timeout", fields.duration)
        grace_s = _duration(wanted.grace, "grace", fields.grace)
        node = self._node(wanted)
        uuids = _named(node, wanted)
        spec = common.TaskSpec(
            name=TASK,
            argv=common.Argv(words=_shown(wanted.command)),
            resources=common.Resources(gpus=wanted.gpus, gpu_models=() if uuids else sorted(set(wanted.models))),
            timeout_s=timeout_s,
            grace_s=grace_s,
            local=common.LocalHold(node_id=node.id, gpu_uuids=uuids, key_hash=wanted.key_hash),
        )
        header = jm.JobHeader(
            owner=account_to_pb(account),
            request_id=job_file.request_id(account.name, wanted.key_hash),
            name=wanted.name or f"on {node.id}",
            priority=common.PRIORITY_NORMAL,
            spec_hash=hashlib.sha256(spec.SerializeToString(deterministic=True)).hexdigest(),
            task_count=1,
        )

        def messages() -> Iterator[jm.SubmitJobPart]:
            yield jm.SubmitJobPart(header=header, tasks=[spec])

        reply: jm.SubmitJobReply = await self._services.jobs.upload(
            "SubmitJob", messages, deadline_s=SUBMIT_S, request_id=header.request_id
        )
        if reply.problems:
            problems = tuple(convert.problem(problem) for problem in reply.problems)
            raise Unsatisfiable(problems[0].message, problems=problems)
        log.info("gpus.asked", job=reply.job_id, owner=account.name, node=node.id, gpus=wanted.gpus)
        return GpuHold(job_id=reply.job_id, task=TASK)

    def _node(self, wanted: GpuHoldRequest) -> rm.Node:
        if wanted.cluster and wanted.cluster != self._cluster:
            raise InvalidInput(
                f"This machine, {wanted.node}, belongs to the cluster {wanted.cluster}, and you are signed in to "
                f"{self._cluster}: `headway login URL` with the address of {wanted.cluster}."
            )
        nodes = {node.id: node for node in self._nodes()}
        if not nodes:
            raise Unavailable("The machines are not known yet; try again in a moment.")
        node = nodes.get(wanted.node)
        if node is None:
            near = difflib.get_close_matches(wanted.node, list(nodes), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise NotFound(f"There is no machine {wanted.node[:64]!r} in this cluster.{hint}")
        return node


def _named(node: rm.Node, wanted: GpuHoldRequest) -> list[str]:
    """The UUIDs that are meant, each once; none: any that suit.

    Raises:
        InvalidInput, Unsatisfiable: the machine never has them.
    """
    there = list(node.status.capacity.gpus)
    if not there:
        raise Unsatisfiable(f"{node.id} has no GPU: `headway gpus` shows where there are some.")
    if wanted.ids:
        return _by_id(node, wanted, there)
    if wanted.gpus > len(there):
        raise Unsatisfiable(f"{node.id} has {counted(len(there), 'GPU')}, and you ask for {wanted.gpus}.")
    models = sorted({gpu.model for gpu in there})
    suitable = [gpu for gpu in there if not wanted.models or any(is_model(gpu.model, one) for one in wanted.models)]
    if len(suitable) < wanted.gpus:
        asked = " or ".join(wanted.models)
        near = next((m for one in wanted.models for m in difflib.get_close_matches(one, models, n=1, cutoff=0.4)), "")
        hint = f" Did you mean {near}?" if near and not suitable else ""
        have = f"{len(suitable)} of that model" if suitable else "none of that model"
        raise Unsatisfiable(
            f"You ask for {counted(wanted.gpus, 'GPU')} of {asked}, and {node.id} has {have}; it has "
            f"{', '.join(models)}.{hint}"
        )
    return []


def _by_id(node: rm.Node, wanted: GpuHoldRequest, there: Sequence[rm.Gpu]) -> list[str]:
    known = {gpu.uuid: gpu for gpu in there}
    found: list[str] = []
    for word in wanted.ids:
        # As nvidia-smi shows it, or its beginning, or its number on this machine.
        hits = [uuid for uuid in known if uuid.lower().startswith(word.lower())] if word else []
        if word.isdigit() and len(word) < 4:
            hits = [gpu.uuid for gpu in there if gpu.index == int(word)]
        if len(hits) > 1:
            raise InvalidInput(f"Several GPUs of {node.id} begin with {word}: {', '.join(hits[:3])}. Write more of it.")
        if not hits:
            near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.3)
            hint = f" The nearest is {near[0]}." if near else f" It has {_numbers(there)}."
            raise InvalidInput(
                f"{node.id} has no GPU {word[:80]!r}.{hint}",
                problems=(Problem("/ids", f"there is no GPU {word[:80]!r}", suggestion=near[0] if near else ""),),
            )
        found.append(hits[0])
    if len(set(found)) < len(found):
        raise InvalidInput("A GPU is named twice.")
    if len(found) != wanted.gpus:
        raise InvalidInput(f"{counted(wanted.gpus, 'GPU')} asked for, and {len(found)} named: leave out the number.")
    if len(found) > 1 and any(is_slice(known[uuid].model) for uuid in found):
        raise Unsatisfiable("A program sees one MIG slice at most: name one.")
    for uuid in found:
        if wanted.models and not any(is_model(known[uuid].model, one) for one in wanted.models):
            raise InvalidInput(
                f"GPU {known[uuid].index} ({uuid}) of {node.id} is {known[uuid].model}, and you ask for "
                f"{' or '.join(wanted.models)}: leave out the model."
            )
        if known[uuid].sick:
            raise Unsatisfiable(
                f"GPU {known[uuid].index} ({uuid}) of {node.id} is out of service: "
                f"{known[uuid].note.rstrip('.') or 'it does not work'}. `headway gpus` shows others."
            )
    return sorted(found)


def _numbers(there: Sequence[rm.Gpu]) -> str:
    """Which GPUs there are, for people who name them by number."""
    numbers = sorted({gpu.index for gpu in there})
    if numbers == list(range(len(numbers))) and len(numbers) > 1:
        return f"GPU {numbers[0]} to {numbers[-1]}"
    return ", ".join(f"GPU {number}" for number in numbers[:8])


def _duration(text: str, what: str, read: Callable[[str], float]) -> float:
    try:
        seconds = read(text)
    except ValueError as error:
        raise InvalidInput(f"The {what} {error}.") from error
    if seconds <= 0 and what == "timeout":
        raise InvalidInput("The timeout must be more than 0, such as 2h.")
    return seconds


def _shown(command: Sequence[str]) -> list[str]:
    """The command for people: not more than they read, and never nothing."""
    words, left = [], _COMMAND_CHARACTERS
    for word in command:
        if left <= 0:
            break
        words.append(word[:left])
        left -= len(word)
    return words or ["(a program of its own)"]
