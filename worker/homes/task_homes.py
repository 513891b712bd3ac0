"""Makes and removes the homes of attempts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from headway.ids import AttemptId

from .model import HomeOrder, TaskHome


class TaskHomes:
    """Homes in ``folder/<attempt.folder>``. All methods block, and may be called from several threads.

    ``user_namespace`` is the command of a child that stands in a user namespace of its own, prints a line and waits
    for the end of its input: the launcher with ``user-namespace``.
    """

    def __init__(self, folder: Path, *, user_namespace: Sequence[str]) -> None:
        self._folder = folder
        self._user_namespace = tuple(user_namespace)

    def probe(self, engine_root: Path | None = None, store: Path | None = None) -> str:
        """Why no home can be made here, in one sentence. Empty: it works, tried with a real mount.

        Args:
            engine_root: the root folder as the container engine sees it, such as ``/proc/42/root``.
            store: where the engine keeps the layers of images.
        """
        raise NotImplementedError

    def prepare(self, attempt: AttemptId, order: HomeOrder) -> TaskHome:
        """Make a home anew. Whatever this attempt had before is removed first, and after a failure all is.

        Raises:
            OSError: for example a full disk.
            HomeImpossible: it never works for this image or machine.
        """
        raise NotImplementedError

    def written(self, attempt: AttemptId) -> Path | None:
        """The folder in which all lies that the task writes in its home. None: it has no home."""
        raise NotImplementedError

    def remove(self, attempt: AttemptId) -> None:
        """Unmount and remove the home of an attempt, if there is one. Safe twice.

        Raises:
            OSError: something is left, for example because something else is mounted inside.
        """
        raise NotImplementedError

    def sweep(self, keep: Collection[AttemptId]) -> int:
        """Remove every home but those of ``keep``. How many are gone. What can't be removed is logged."""
        raise NotImplementedError
