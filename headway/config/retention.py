"""How long ended jobs are kept, as the services look at it."""

from __future__ import annotations

from ..model.retention import AccountRule, RetentionRules
from .sections import HeadwayConfig


def retention_rules(config: HeadwayConfig) -> RetentionRules:
    """The rules of the section ``retention``."""
    mine = config.retention
    accounts = {name: AccountRule(rule.days, rule.log_bytes) for name, rule in mine.accounts.items()}
    return RetentionRules(mine.days, mine.log_bytes, mine.log_bytes_per_account, accounts)
