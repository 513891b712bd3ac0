"""What a runtime is made from, and what it brings along. Packages that add a runtime import these.

The page docs/runtimes.md tells how; ``ports.Runtime`` is the contract of each call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headway.clock import Clock

from ..network.guard import Guard
from ..ports import Gpus, Runtime

if TYPE_CHECKING:
    from headway.config import HeadwayConfig


@dataclass(frozen=True, slots=True)
class RuntimeSetup:
    """What the Worker gives to a runtime that is made.

    ``attempts_dir`` is on a local disk, exists, and is this Worker's alone: boxes lie in ``attempts_dir/ATTEMPT/box``.
    A runtime may keep files of its own beside it. ``tell`` sets a condition of the node: its word, a sentence (empty
    ends it), and whether the node takes no work while it holds.
    """

    config: HeadwayConfig
    attempts_dir: Path
    clock: Clock
    tell: Callable[[str, str, bool], None]


@dataclass(frozen=True, slots=True)
class RuntimeParts:
    """A runtime, and what the Worker would else do for it by itself.

    ``gpus``: who reads the GPUs that it can give to tasks. None: NVML reads those of this machine.
    ``guard``: who keeps tasks away from each other and from this machine. None: nobody does. Then the node takes work
    only if ``worker.network_rules`` does not require it, or the runtime only simulates.
    ``gpu_passing``: how containers are given GPUs now, in a word for people. None: nothing is said of it.
    """

    runtime: Runtime
    gpus: Gpus | None = None
    guard: Guard | None = None
    gpu_passing: Callable[[], str] | None = None


class RuntimeKind(Protocol):
    """What an entry point of the group ``headway.runtimes`` names: a class with the methods of ``ports.Runtime``.

    ``name`` is the entry point's name.
    """

    name: str

    def from_setup(self, setup: RuntimeSetup) -> RuntimeParts:
        """Make one, as a class method. It connects to nothing: ``Runtime.open`` does.

        Raises:
            HeadwayError: it can't be made from these settings; the Worker does not start, and shows the sentence.
        """
        ...
