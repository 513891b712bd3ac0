"""The rules as scripts for ``nft``: two tables of the Worker's own, each replaced in one step. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .addresses import Mark, Marks
from .rules import Kind, Rule, RuleSet

FAMILIES = ("inet", "bridge")
_BEFORE_OTHERS = -10  # Docker's and firewalls' own chains are at 0
_REFUSE = "reject with icmpx type admin-prohibited"  # without "type" nft before 1.0 can't read it
_KINDS = {
    Kind.REPLY: "ct state established ct direction reply",
    Kind.RELATED: "ct state related",
    Kind.REDIRECTED: "ct status dnat",
    Kind.SIX: "meta nfproto ipv6",
}


def script(rules: RuleSet) -> str:
    """Replaces the whole table. Nobody sees a moment without it."""
    table, marks = rules.facts.table, rules.facts.marks
    of_a_task = _from(marks.all)
    lines = [
        *_replaced("inet", table),
        f"table inet {table} {{",
        *_chain("outward", (_line(rule, marks) for rule in rules.outward)),
        *_chain("machine", (_line(rule, marks) for rule in rules.machine)),
        *_chain("forwarded", [f"{of_a_task} jump outward"], "forward"),
        *_chain("received", [f"{of_a_task} jump machine"], "input"),
        "}",
    ]
    return "\n".join(lines) + "\n"


def bridge_script(rules: RuleSet) -> str:
    """A second table, for packets inside a bridge. Not every kernel shows those to ``script``.

    In the engine's default bridge a task meets nobody. In the network of a job there is only the job.
    """
    table, mark = rules.facts.table, rules.facts.marks.outgoing
    lines = [
        *_replaced("bridge", table),
        f"table bridge {table} {{",
        *_chain("switched", [f"{_from(mark)} drop", f"{_to(mark)} drop"], "forward"),
        "}",
    ]
    return "\n".join(lines) + "\n"


def removal(family: str, table: str) -> str:
    """Removes a table, if it is there."""
    return "\n".join(_replaced(family, table)) + "\n"


def _replaced(family: str, table: str) -> Iterator[str]:
    yield f"add table {family} {table}"  # so that the next line never fails
    yield f"delete table {family} {table}"


def _chain(name: str, lines: Iterable[str], hook: str = "") -> Iterator[str]:
    yield f"  chain {name} {{"
    if hook:
        yield f"    type filter hook {hook} priority {_BEFORE_OTHERS}; policy accept;"
    for line in lines:
        yield f"    {line}"
    yield "  }"


def _line(rule: Rule, marks: Marks) -> str:
    words = []
    end = "return" if rule.passes else _REFUSE
    if rule.kind is Kind.SAME_JOB:
        words.append(f"{_from(marks.job)} {_to(marks.job)}")
    elif rule.kind is Kind.TO_TASK:
        words.append(_to(marks.all))
        end = "drop"  # inside a bridge some kernels can't reject
    elif rule.kind is not Kind.ANY:
        words.append(_KINDS[rule.kind])
    if rule.out:
        words.append(f'oifname "{rule.out}*"')
    if rule.to:
        words.append(f"ip daddr {{ {', '.join(map(str, rule.to))} }}")
    if rule.ports:
        words.append(f"meta l4proto {{ tcp, udp }} th dport {{ {', '.join(map(str, rule.ports))} }}")
    return " ".join([*words, end])


def _from(mark: Mark) -> str:
    return f"ether saddr & {mark.mask} == {mark.value}"


def _to(mark: Mark) -> str:
    return f"ether daddr & {mark.mask} == {mark.value}"
