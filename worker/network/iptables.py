"""The rules as a script for ``iptables-restore``, for machines without ``nft``. Pure.

They stand in the table ``mangle``, whose chains come before those of ``filter``. There engines and firewalls put
themselves to the front again and again.
"""

from __future__ import annotations

from collections.abc import Iterator

from .rules import Kind, Rule, RuleSet

TABLE = "mangle"
_KINDS = {
    Kind.REPLY: "-m conntrack --ctstate ESTABLISHED --ctdir REPLY",
    Kind.RELATED: "-m conntrack --ctstate RELATED",
    Kind.REDIRECTED: "-m conntrack --ctstate DNAT",
}


def script(rules: RuleSet) -> str:
    """Fills the Worker's own chains anew. ``jumps`` lead to them."""
    outward, inward, machine = chains(rules)
    lines = [f"*{TABLE}", *(f":{chain} - [0:0]" for chain in (outward, inward, machine))]
    for chain, part in ((outward, rules.outward), (inward, rules.inward), (machine, rules.machine)):
        for rule in part:
            lines += [f"-A {chain} {words}".rstrip() for words in _lines(rule)]
    return "\n".join([*lines, "COMMIT"]) + "\n"


def script_six(rules: RuleSet) -> str:
    """For ``ip6tables-restore``: the tasks' networks have no IPv6, so nothing passes."""
    lines = [f"*{TABLE}"]
    for chain in chains(rules):
        lines += [f":{chain} - [0:0]", f"-A {chain} -j DROP"]
    return "\n".join([*lines, "COMMIT"]) + "\n"


def jumps(rules: RuleSet) -> list[tuple[str, ...]]:
    """Rules of the built-in chains, each as the words behind ``-C`` or ``-I``."""
    bridges = f"{rules.facts.bridges}+"
    outward, inward, machine = chains(rules)
    return [
        ("FORWARD", "-i", bridges, "-j", outward),
        ("FORWARD", "-o", bridges, "-j", inward),
        ("INPUT", "-i", bridges, "-j", machine),
    ]


def chains(rules: RuleSet) -> tuple[str, str, str]:
    """Names of the Worker's chains: from tasks, to tasks, to this machine."""
    name = f"HEADWAY-{rules.facts.identity}"
    return f"{name}-OUT", f"{name}-IN", f"{name}-HERE"


def _lines(rule: Rule) -> Iterator[str]:
    if rule.kind is Kind.SIX:
        return  # ``script_six``
    words = [_KINDS[rule.kind]] if rule.kind is not Kind.ANY else []
    if rule.same:
        words.append(f"-i {rule.same} -o {rule.same}")
    if rule.out:
        words.append(f"-o {rule.out}+")
    end = "-j RETURN" if rule.passes else "-j DROP"
    for place in rule.to or (None,):
        here = [*words, f"-d {place}"] if place is not None else words
        if not rule.ports:
            yield " ".join([*here, end])
        for port in rule.ports:
            for protocol in ("tcp", "udp"):
                yield " ".join([*here, f"-p {protocol} --dport {port}", end])
