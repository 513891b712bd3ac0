"""Why a waiting task has its place in the queue, in words: the terms of its priority by whatever policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .common import safe, span

_HIGHEST = "(the highest score starts first)"
_PRIORITIES = {-1: "low", 0: "normal", 1: "high"}


def priority_lines(terms: Mapping[str, float], now: float) -> list[str]:
    """A line for each term. ``now`` is by the wall clock, in epoch seconds.

    A policy counts submissions from the epoch. What people can compare is the same score counted from now.
    """
    rest = dict(terms)
    lines = [f"priority: {_priority(rest.pop('priority', 0.0))}"]
    waited_s = rest.pop("waited_s", None)
    if waited_s is not None and {"alpha_p", "beta_t", "gamma_t"} <= rest.keys():
        del rest["alpha_p"]  # the priority again
        gamma = round(-rest.pop("gamma_t") / max(1.0, now - waited_s), 3)
        aged_s, timeout_s = gamma * waited_s, rest.pop("beta_t")
        counts = "" if gamma == 1 else f", counted as {_size(aged_s)}"
        lines.append(f"raises its score: waiting for {span(waited_s)}{counts}")
        lines.append(f"lowers its score: its timeout, counted as {_size(timeout_s)}")
        lines.append(f"score: {_signed(aged_s + timeout_s)} {_HIGHEST}")
    elif waited_s is not None:
        lines.append(f"waiting for {span(waited_s)}")
    for name, value in rest.items():
        say = _KNOWN.get(name)
        lines.append(say(value) if say is not None else _of_another(name, value))
    return lines


def _priority(value: float) -> str:
    return _PRIORITIES.get(int(value), f"{value:g}") if value == int(value) else f"{value:g}"


def _timeout(seconds: float) -> str:
    effect = "raises" if seconds > 0 else "lowers"
    return f"{effect} its score: its timeout, counted as {_size(seconds)}"


_KNOWN: dict[str, Callable[[float], str]] = {
    "timeout_s": _timeout,
    "log_timeout_s": _timeout,
    "response_ratio": lambda ratio: f"score: {ratio:.2f}, its wait beside its timeout {_HIGHEST}",
    "c": lambda seconds: f"ten times the timeout costs {span(seconds)} of waiting",
    "spread_s": lambda seconds: f"lowers its score: other tasks of the same account, counted as {_size(seconds)}",
}


def _of_another(name: str, value: float) -> str:
    """A term of a policy that nobody knows here; by its name, ``…_s`` is in seconds."""
    if name.endswith("_s"):
        return f"{safe(name[:-2].replace('_', ' '))}: {_signed(value)}"
    return f"{safe(name.replace('_', ' '))}: {value:.6g}"


def _size(seconds: float) -> str:
    """How much it counts, whichever way."""
    return span(abs(round(seconds))) if round(seconds) else "0s"


def _signed(seconds: float) -> str:
    """A duration with its sign; less than a second is nothing."""
    whole = round(seconds)
    return "0s" if whole == 0 else f"{'-' if whole < 0 else '+'}{span(abs(whole))}"
