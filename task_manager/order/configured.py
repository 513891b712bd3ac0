"""The scheduling policy that the configuration asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.errors import ConfigInvalid

from . import policy_registry

if TYPE_CHECKING:
    from headway.config import HeadwayConfig

    from .policy import Policy


def policy_of(config: HeadwayConfig) -> Policy:
    """The policy that orders the queue.

    Raises:
        ConfigInvalid: there is no such policy here, or it refuses these parameters.
    """
    try:
        return policy_registry.by_name(config.task_manager.policy, parameters(config))
    except ValueError as error:
        raise ConfigInvalid(f"[task_manager] policy can't be taken: {error}") from error


def parameters(config: HeadwayConfig) -> dict[str, dict[str, float]]:
    """Policy parameters with configuration keys of their own; the text of the policy may override them."""
    return {
        "aging_sjf": {"beta": config.task_manager.beta, "gamma": config.task_manager.gamma},
        "log_aging": {"means": config.task_manager.mean_timeouts},
    }
