"""What a waiting task's place in the queue rests on, in words: the terms of its priority by whatever policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .common import safe, span

_PRIORITIES = {-1: "low", 0: "normal", 1: "high"}


def priority_lines(terms: Mapping[str, float], now: float) -> list[str]:
    """A line for each. ``now``: by the wall clock, in epoch seconds; a policy counts submissions from the epoch, and
    what people can compare is the same sum counted from now."""
    rest = dict(terms)
    lines = [f"priority: {_priority(rest.pop('priority', 0.0))}"]
    waited_s = rest.pop("waited_s", None)
    if waited_s is not None and {"alpha_p", "beta_t", "gamma_t"} <= rest.keys():
        del rest["alpha_p"]  # the priority again
        gamma = round(-rest.pop("gamma_t") / max(1.0, now - waited_s), 3)
        aged_s, timeout_s = gamma * waited_s, rest.pop("beta_t")
        counts = "" if gamma == 1 else f", which counts {_signed(aged_s)}"
        lines.append(f"for it: it has waited {span(waited_s)}{counts}")
        lines.append(f"against it: its timeout, which counts {_signed(timeout_s)}")
        lines.append(f"together: {_signed(aged_s + timeout_s)} (the highest goes first)")
    elif waited_s is not None:
        lines.append(f"has waited: {span(waited_s)}")
    for name, value in rest.items():
        say = _KNOWN.get(name)
        lines.append(say(value) if say is not None else _of_another(name, value))
    return lines


def _priority(value: float) -> str:
    return _PRIORITIES.get(int(value), f"{value:g}") if value == int(value) else f"{value:g}"


def _timeout(seconds: float) -> str:
    side = "for it" if seconds > 0 else "against it"
    return f"{side}: its timeout, which counts {_signed(seconds)}"


_KNOWN: dict[str, Callable[[float], str]] = {
    "timeout_s": _timeout,
    "log_timeout_s": _timeout,
    "response_ratio": lambda ratio: f"its wait, measured by its timeout: {ratio:.2f} times (the highest goes first)",
    "c": lambda seconds: f"ten times the timeout costs {span(seconds)} of waiting",
    "spread_s": lambda seconds: f"against it: other tasks of the same account, which count {_signed(seconds)}",
}


def _of_another(name: str, value: float) -> str:
    """A term of a policy that nobody knows here; by its name, ``…_s`` is in seconds."""
    if name.endswith("_s"):
        return f"{safe(name[:-2].replace('_', ' '))}: {_signed(value)}"
    return f"{safe(name.replace('_', ' '))}: {value:.6g}"


def _signed(seconds: float) -> str:
    """A duration with its sign; less than a second is nothing."""
    whole = round(seconds)
    return "0s" if whole == 0 else f"{'-' if whole < 0 else '+'}{span(abs(whole))}"
