"""Sets the rules by ``nft``, looks whether they are still there, and puts them back."""

from __future__ import annotations

import contextlib

from headway.logs import get_logger

from . import nft
from .namespace import NetworkNamespace, ProgramFailed
from .rules import RuleSet, table_of

log = get_logger(__name__)

_PROGRAM = "nft"
_BRIDGED = "bridge/bridge-nf-call-iptables"


class Firewall:
    """One Worker's rules. All calls block."""

    def __init__(self) -> None:
        self._bridges = True  # whether the kernel filters inside a bridge by itself
        self._set: RuleSet | None = None
        self._where: NetworkNamespace | None = None
        self._listing = ""

    def hold(self, where: NetworkNamespace, rules: RuleSet) -> str:
        """Make sure that the rules are there. The reason why they can't be, else an empty text."""
        as_before = self._set == rules and self._where == where
        try:
            if as_before and self._are_as_set(where, rules):
                return ""
            self._write(where, rules)
            self._listing = self._list(where, rules)
        except ProgramFailed as error:
            self._set = None
            return str(error)
        if as_before:
            log.warning("network.rules_put_back")
        self._set, self._where = rules, where
        return ""

    def remove(self, where: NetworkNamespace, identity: str) -> None:
        """Remove this Worker's tables. Safe twice."""
        self._set = None
        for family in nft.FAMILIES:
            with contextlib.suppress(ProgramFailed):
                where.run(_PROGRAM, "-f", "-", text=nft.removal(family, table_of(identity)))

    def _write(self, where: NetworkNamespace, rules: RuleSet) -> None:
        where.run(_PROGRAM, "-f", "-", text=nft.script(rules))
        try:
            where.run(_PROGRAM, "-f", "-", text=nft.bridge_script(rules))
            self._bridges = True
        except ProgramFailed:
            # Then packets inside a bridge must go through the other table.
            self._bridges = False
            if where.setting(_BRIDGED) != "1":
                raise

    def _list(self, where: NetworkNamespace, rules: RuleSet) -> str:
        """The rules as they are now, in nft's own words."""
        families = nft.FAMILIES if self._bridges else nft.FAMILIES[:1]
        # One by one: nft 1.0.6 finds only the last one's family when a script lists two.
        parts = [where.run(_PROGRAM, "-s", "list", "table", family, rules.facts.table) for family in families]
        return "".join(parts if self._bridges else [*parts, where.setting(_BRIDGED)])

    def _are_as_set(self, where: NetworkNamespace, rules: RuleSet) -> bool:
        try:
            return self._list(where, rules) == self._listing
        except ProgramFailed:
            return False  # a table that is gone is an error, too
