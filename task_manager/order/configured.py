"""The policy that the configuration asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.errors import ConfigInvalid

from . import policies

if TYPE_CHECKING:
    from headway.config import HeadwayConfig

    from .policy import Policy


def configured_policy(config: HeadwayConfig) -> Policy:
    """The order of the queue.

    Raises:
        ConfigInvalid: it can't be had here, or not with these parameters.
    """
    try:
        return policies.by_name(config.task_manager.policy, configured_parameters(config))
    except ValueError as error:
        raise ConfigInvalid(f"[task_manager] policy can't be taken: {error}") from error


def configured_parameters(config: HeadwayConfig) -> dict[str, dict[str, float]]:
    """Parameters of policies that have keys of their own, unless the policy's text says otherwise."""
    return {"aging_sjf": {"beta": config.task_manager.beta, "gamma": config.task_manager.gamma}}
