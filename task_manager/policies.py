"""A policy by its name, with parameters: ``aging_sjf:beta=2``; more come as entry points of other packages."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import EntryPoint, entry_points

from .policy import AgingSjf, Fifo, Ljf, LogAging, Policy, Sjf, copied
from .resorting import Adaptive, Fair, Hrrn
from .strangers import let_ours_pass, words

GROUP = "headway.policies"
BUILT_IN: dict[str, type[Policy]] = {
    policy.name: policy for policy in (AgingSjf, Fifo, Sjf, Ljf, Hrrn, LogAging, Adaptive, Fair)
}


class BadPolicy(ValueError):
    """There is no such policy, or not with these parameters. ``str()`` is a sentence."""


def names() -> list[str]:
    """All that can be asked for here."""
    return sorted({*BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))})


def by_name(text: str, defaults: Mapping[str, Mapping[str, float]] | None = None) -> Policy:
    """A new policy object for ``NAME`` or ``NAME:parameter=value,parameter=value``.

    ``defaults``: parameters of policies, by their names, that ``text`` may override.

    Raises:
        BadPolicy: there is none of that name, a parameter is unknown or out of range, or a third party's does not load.
    """
    name, _, rest = text.strip().partition(":")
    make = BUILT_IN.get(name) or _from_entry_point(name)
    given = {**(defaults or {}).get(name, {}), **_parameters(text, rest)}
    known = parameters(make)
    if known is not None:
        for parameter in given:
            if parameter not in known:
                there = f"it has {', '.join(known)}" if known else "it has none"
                raise BadPolicy(f"Policy {name!r} has no parameter {parameter!r}; {there}.")
    try:
        policy = make(**given)
    except BaseException as error:
        let_ours_pass(error)
        raise BadPolicy(f"Policy {text!r} can't be made: {words(error)}.") from error
    if not isinstance(policy, Policy):
        raise BadPolicy(f"Policy {name!r} is not usable: its entry point does not give a task_manager.policy.Policy.")
    if not isinstance(_name(policy), str):
        raise BadPolicy(f"Policy {name!r} is not usable: its `name` is no text.")
    try:
        copied(policy)
    except BaseException as error:
        let_ours_pass(error)
        raise BadPolicy(f"Policy {name!r} can't be copied, as previews need it: {words(error)}.") from error
    return policy


def _name(policy: Policy) -> object:
    try:
        return policy.name
    except BaseException as error:  # a third party's may compute it
        let_ours_pass(error)
        return None


def parameters(make: Callable[..., object]) -> list[str] | None:
    """The names of its parameters; None where it does not tell."""
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
    found: tuple[EntryPoint, ...] = tuple(entry_points(group=GROUP, name=name))
    if not found:
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise BadPolicy(f"There is no scheduling policy {name!r}; there are {', '.join(names())}.{hint}")
    try:
        make: Callable[..., object] = found[0].load()
    except BaseException as error:
        let_ours_pass(error)
        raise BadPolicy(f"Policy {name!r} of entry point {found[0].value} does not load: {words(error)}.") from error
    return make
