"""The rules as a script for ``nft``: two tables of the Worker's own, replaced in one step. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .rules import Kind, Rule, RuleSet

_BEFORE_OTHERS = -10  # Docker's and firewalls' own chains are at 0
_REFUSE = "reject with icmpx admin-prohibited"
_KINDS = {
    Kind.REPLY: "ct state established ct direction reply",
    Kind.RELATED: "ct state related",
    Kind.REDIRECTED: "ct status dnat",
    Kind.SIX: "meta nfproto ipv6",
}


def script(rules: RuleSet) -> str:
    """Replaces the whole table. Nobody sees a moment without it."""
    table, bridges = rules.facts.table, rules.facts.bridges
    lines = [
        *_replaced("inet", table),
        f"table inet {table} {{",
        *_chain("outward", map(_line, rules.outward)),
        *_chain("inward", map(_line, rules.inward)),
        *_chain("machine", map(_line, rules.machine)),
        *_chain("forwarded", [f'iifname "{bridges}*" jump outward', f'oifname "{bridges}*" jump inward'], "forward"),
        *_chain("received", [f'iifname "{bridges}*" jump machine'], "input"),
        "}",
    ]
    return "\n".join(lines) + "\n"


def bridge_script(rules: RuleSet) -> str:
    """A second table for packets inside the bridge of `outgoing`. Not every kernel shows those to ``script``."""
    table, subnet = rules.facts.table, rules.facts.outgoing
    drops = [f"ip saddr {subnet} ip daddr {subnet} drop"] if subnet is not None else []
    lines = [
        *_replaced("bridge", table),
        f"table bridge {table} {{",
        *_chain("switched", drops, "forward"),
        "}",
    ]
    return "\n".join(lines) + "\n"


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


def _line(rule: Rule) -> str:
    words = []
    if rule.kind is not Kind.ANY:
        words.append(_KINDS[rule.kind])
    if rule.same:
        words.append(f'iifname "{rule.same}" oifname "{rule.same}"')
    if rule.out:
        words.append(f'oifname "{rule.out}*"')
    if rule.to:
        words.append(f"ip daddr {{ {', '.join(map(str, rule.to))} }}")
    if rule.ports:
        words.append(f"meta l4proto {{ tcp, udp }} th dport {{ {', '.join(map(str, rule.ports))} }}")
    words.append("return" if rule.passes else _REFUSE)
    return " ".join(words)
