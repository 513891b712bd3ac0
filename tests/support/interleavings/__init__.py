"""A model of a whole cluster: the product's code in a world where machines, processes and links die at any step.

Real are TaskManager's engine with its database, the Workers with their executors, the Docker runtime, and the files and
locks of the boxes. Simulated are time, network, the container engine and the launcher (docs/box.md, step by step).
Everything runs on one thread in an order that a seed fixes.
"""

from .walk import Result, find_violation, walk
from .world import Violation, World

__all__ = ["Result", "Violation", "World", "find_violation", "walk"]
