"""The old place of the policy interface, kept for packages of third parties until version 0.2.

Write ``from task_manager.order.policy import Policy`` instead.
"""

from .order.policy import ClusterView, Policy, View

__all__ = ["ClusterView", "Policy", "View"]
