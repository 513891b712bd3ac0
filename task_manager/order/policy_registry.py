"""Finds a policy by its name and parameters, such as ``aging_sjf:beta=2``.

Other packages add policies by entry points of the group `headway.policies`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace

from headway import plugins
from headway.ids import JobId, TaskId
from headway.units import MAX_DURATION_S, MIN_DURATION_S, format_duration

from ..model import Shape, Task
from .dynamic_policies import Adaptive, Fair, Hrrn
from .guard import message_of, reraise_ctrl_c
from .policy import AgingSjf, ClusterView, Fifo, Ljf, LogAging, Policy, Sjf, policy_copy

ENTRY_POINT_GROUP = "headway.policies"
BUILT_IN: dict[str, type[Policy]] = {
    policy.name: policy for policy in (AgingSjf, Fifo, Sjf, Ljf, Hrrn, LogAging, Adaptive, Fair)
}


_OURS = frozenset(BUILT_IN.values())
# An extreme task, which must be sortable too: submitted in the year 2096, with many GPUs, for a year.
_FAR_AT = 4e9
_MUCH_GPU_S = 1e12
_SAMPLE = Task(
    id=TaskId(JobId("sample"), "t"), generation=1, owner="sample", job_name="", priority=0, submitted_at=_FAR_AT,
    tail_timeout_s=0.0, shape=Shape(100, 1, gpus=1_000), timeout_s=MAX_DURATION_S, retries=0,
)  # fmt: skip


class BadPolicy(ValueError):
    """There is no such policy, or it refuses these parameters. ``str()`` is a sentence for people."""


def known_names() -> list[str]:
    """The names of all policies that can be used here, sorted."""
    return sorted({*BUILT_IN, *plugins.names(ENTRY_POINT_GROUP)})


def by_name(text: str, defaults: Mapping[str, Mapping[str, float]] | None = None) -> Policy:
    """A new policy object for ``NAME`` or ``NAME:parameter=value,parameter=value``.

    ``defaults`` holds parameters by the names of policies; ``text`` may override them.

    Raises:
        BadPolicy: no policy has that name, a parameter is unknown or out of range, or a third party's code fails.
    """
    name, _, rest = text.strip().partition(":")
    make = BUILT_IN.get(name) or _from_entry_point(name)
    given = {**(defaults or {}).get(name, {}), **_parameters(text, rest)}
    known = parameters_of(make)
    if known is not None:
        for parameter in given:
            if parameter not in known:
                there = f"it has {', '.join(known)}" if known else "it has none"
                raise BadPolicy(f"Policy {name!r} has no parameter {parameter!r}; {there}.")
    try:
        policy = make(**given)
    except BaseException as error:
        reraise_ctrl_c(error)
        raise BadPolicy(f"Policy {text!r} can't be used: {message_of(error)}.") from error
    if not isinstance(policy, Policy):
        raise BadPolicy(f"Policy {name!r} is not usable: its entry point does not give a task_manager.policy.Policy.")
    if not isinstance(_name(policy), str):
        raise BadPolicy(f"Policy {name!r} is not usable: its `name` is no text.")
    if make in _OURS:
        _check_numbers(text.strip(), policy)
    try:
        policy_copy(policy)
    except BaseException as error:
        reraise_ctrl_c(error)
        raise BadPolicy(f"Policy {name!r} can't be copied, as previews need it: {message_of(error)}.") from error
    return policy


def _check_numbers(text: str, policy: Policy) -> None:
    """Raises BadPolicy if parameters that are in range one by one give keys that are not finite together."""
    tried, view, now = policy_copy(policy), ClusterView(1, _MUCH_GPU_S), _FAR_AT
    for timeout_s in (MIN_DURATION_S, MAX_DURATION_S):
        task = replace(_SAMPLE, timeout_s=timeout_s)
        key = math.nan
        with suppress(ArithmeticError):
            for number in range(3):  # tasks of one account: under `fair` each delays the next one
                task = replace(task, id=TaskId(JobId(f"{number}"), f"{timeout_s}"))
                tried.arrived(task, view)
            key = tried.key(task, now, view)
        if not math.isfinite(key):
            asks = f"a task of {format_duration(timeout_s)}"
            raise BadPolicy(f"Policy {text!r} gives {asks} no finite number; use smaller parameters.")


def _name(policy: Policy) -> object:
    try:
        return policy.name
    except BaseException as error:  # a third party's may compute it
        reraise_ctrl_c(error)
        return None


def parameters_of(make: Callable[..., object]) -> list[str] | None:
    """The names of a policy's parameters; None if it does not tell them."""
    if not is_dataclass(make):
        return None
    return [field.name for field in fields(make) if field.init]


def _parameters(text: str, rest: str) -> dict[str, float]:
    given: dict[str, float] = {}
    for part in filter(None, rest.replace(":", ",").split(",")):
        parameter, equals, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not equals or not math.isfinite(number):
            raise BadPolicy(f"Policy {text!r}: {part!r} is not of the form parameter=number.")
        given[parameter.strip()] = number
    return given


def _from_entry_point(name: str) -> Callable[..., object]:
    if name not in plugins.names(ENTRY_POINT_GROUP):
        near = difflib.get_close_matches(name, known_names(), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise BadPolicy(f"There is no scheduling policy {name!r}; there are {', '.join(known_names())}.{hint}")
    try:
        entry = plugins.find(ENTRY_POINT_GROUP, name).entry
    except plugins.NoSuchPlugin as error:
        raise BadPolicy(f"The scheduling policy {error}.") from error
    try:
        make: Callable[..., object] = entry.load()
    except BaseException as error:
        reraise_ctrl_c(error)
        raise BadPolicy(f"Policy {name!r} of entry point {entry.value} does not load: {message_of(error)}.") from error
    return make
