"""What the routes call, put together by app.py and by tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.clock import Clock

    from .auth.accounts import Accounts
    from .cluster import Cluster
    from .files.service import Files
    from .hub import Hub
    from .jobs import Jobs
    from .logs.service import Logs
    from .ready import Readiness
    from .settings import Settings
    from .submit import Submit


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the running service."""

    settings: Settings
    clock: Clock
    accounts: Accounts
    submit: Submit
    jobs: Jobs
    logs: Logs
    cluster: Cluster
    files: Files
    hub: Hub
    readiness: Readiness
