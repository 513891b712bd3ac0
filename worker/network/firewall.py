"""Sets the rules by ``nft`` or ``iptables``, looks whether they are still there, and puts them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headway.logs import get_logger

from . import iptables, nft
from .namespace import NetworkNamespace, ProgramFailed, find_program
from .rules import RuleSet

log = get_logger(__name__)

_BRIDGED = "bridge/bridge-nf-call-iptables"


class Tool(Protocol):
    """One way to set rules. All calls block and raise ProgramFailed."""

    program: str

    def set(self, where: NetworkNamespace, rules: RuleSet) -> None: ...

    def listing(self, where: NetworkNamespace, rules: RuleSet) -> str:
        """The rules as they are now, in the tool's own words."""
        ...


class Nft:
    program = "nft"

    def __init__(self) -> None:
        self._bridges = True  # whether the kernel filters inside a bridge by itself

    def set(self, where: NetworkNamespace, rules: RuleSet) -> None:
        where.run("nft", "-f", "-", text=nft.script(rules))
        try:
            where.run("nft", "-f", "-", text=nft.bridge_script(rules))
            self._bridges = True
        except ProgramFailed:
            # Then packets inside a bridge must go through the other table.
            self._bridges = False
            if where.setting(_BRIDGED) != "1":
                raise

    def listing(self, where: NetworkNamespace, rules: RuleSet) -> str:
        families = ("inet", "bridge") if self._bridges else ("inet",)
        # One by one: nft 1.0.6 finds only the last one's family when a script lists two.
        return "".join(where.run("nft", "-s", "list", "table", family, rules.facts.table) for family in families)


class Iptables:
    program = "iptables"

    def set(self, where: NetworkNamespace, rules: RuleSet) -> None:
        if rules.facts.outgoing is not None and where.setting(_BRIDGED) != "1":
            raise ProgramFailed("bridge-nf-call-iptables is off, so iptables does not see packets inside a bridge")
        where.run("iptables-restore", "--noflush", text=iptables.script(rules))
        self._lead("iptables", where, rules)
        if find_program("ip6tables-restore") is not None and where.kernel_file("if_inet6"):
            where.run("ip6tables-restore", "--noflush", text=iptables.script_six(rules))
            self._lead("ip6tables", where, rules)

    def _lead(self, program: str, where: NetworkNamespace, rules: RuleSet) -> None:
        for chain, *words in iptables.jumps(rules):
            try:
                where.run(program, "-t", iptables.TABLE, "-C", chain, *words)
            except ProgramFailed:
                where.run(program, "-t", iptables.TABLE, "-I", chain, "1", *words)

    def listing(self, where: NetworkNamespace, rules: RuleSet) -> str:
        parts = [where.run("iptables", "-t", iptables.TABLE, "-S", chain) for chain in iptables.chains(rules)]
        for chain, *words in iptables.jumps(rules):
            where.run("iptables", "-t", iptables.TABLE, "-C", chain, *words)
        return "".join([*parts, where.setting(_BRIDGED)])


class Firewall:
    """One Worker's rules. All calls block."""

    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        self._tools = tuple(tools) or (Nft(), Iptables())
        self._tool: Tool | None = None
        self._set: RuleSet | None = None
        self._where: NetworkNamespace | None = None
        self._listing = ""

    def hold(self, where: NetworkNamespace, rules: RuleSet) -> str:
        """Make sure that the rules are there. The reason why they can't be, else an empty text."""
        if self._set == rules and self._where == where and self._is_as_set(where, rules):
            return ""
        put_back = self._set == rules and self._where == where
        reasons = []
        for tool in self._tools:
            try:
                tool.set(where, rules)
                self._listing = tool.listing(where, rules)
            except ProgramFailed as error:
                reasons.append(str(error))
                continue
            if put_back:
                log.warning("network.rules_put_back", program=tool.program)
            self._tool, self._set, self._where = tool, rules, where
            return ""
        self._tool = self._set = None
        return "; ".join(reasons)

    def _is_as_set(self, where: NetworkNamespace, rules: RuleSet) -> bool:
        try:
            return self._tool is not None and self._tool.listing(where, rules) == self._listing
        except ProgramFailed:
            return False  # a table that is gone is an error, too
