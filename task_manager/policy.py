"""The old module of the policy interface, kept for third-party packages until version 0.2.

Write ``from task_manager.order.policy import Policy`` instead.
"""

from .order.policy import ClusterView, Policy, View

__all__ = ["ClusterView", "Policy", "View"]
