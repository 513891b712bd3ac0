"""Removes what jobs left on the shared mount: their logs and specs, in steps of limited time."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from headway.errors import InvalidInput, MountUnavailable
from headway.ids import is_job_id
from headway.logs import get_logger
from headway.mount import Layout, MountKind, MountProbe, reach

from ..filesystem.removal import remove_account_tree

log = get_logger(__name__)

MOST_JOBS = 500
_STEP_S = 5.0
_TOLD = 1_000
# These are about one folder. Others, such as EIO, may be too, unless no folder at all can be worked on.
_OF_ONE = frozenset({errno.EACCES, errno.EPERM, errno.ENOTEMPTY, errno.EBUSY, errno.EXDEV, errno.ELOOP, errno.ENOTDIR})
# These are about the mount, even where there is one folder to judge by.
_OF_MOUNT = frozenset({errno.ENOTCONN, errno.ESHUTDOWN, errno.ETIMEDOUT, errno.EROFS, errno.ENOSPC, errno.ENODEV})


class JobFolders:
    """See the module."""

    def __init__(
        self, layout: Layout, mount: MountProbe, cluster: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._layout = layout
        self._mount = mount
        self._cluster = cluster
        self._now = now
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="job folders")
        self._busy: asyncio.Future[list[str]] | None = None
        self._told: set[str] = set()

    def close(self) -> None:
        """Lets go of the thread; one that hangs on a dead mount is left behind."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def remove(self, job_ids: Sequence[str]) -> list[str]:
        """Removes the folders of these jobs, as many as the time of a step allows; those that have none any more.

        Raises:
            InvalidInput: too many, or no ids of jobs.
            MountUnavailable: the mount is away, or can't be written.
        """
        if len(job_ids) > MOST_JOBS:
            raise InvalidInput(f"At most {MOST_JOBS} jobs can be asked about at a time; {len(job_ids)} were.")
        if wrong := [one for one in job_ids if not is_job_id(one)]:
            raise InvalidInput(f"{wrong[0][:64]!r} is no job id.")
        if self._busy is not None and not self._busy.done():
            raise MountUnavailable("The shared folder has not answered the removal before this one yet.")
        await self._mount.require(MountKind.FULL)
        until = self._now() + _STEP_S
        self._busy = asyncio.get_running_loop().run_in_executor(self._thread, self._remove, list(job_ids), until)
        return await asyncio.shield(self._busy)

    def _remove(self, job_ids: Sequence[str], until: float) -> list[str]:
        gone: list[str] = []
        failed: list[OSError] = []
        try:
            with reach(self._layout, self._cluster, self._layout.root / "jobs") as path:
                folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    # Those that failed before come last, so that they hold up none.
                    for job_id in sorted(job_ids, key=lambda one: one in self._told):
                        if self._now() >= until:
                            break
                        try:
                            if self._removed(folder, job_id, until):
                                gone.append(job_id)
                        except OSError as error:
                            failed.append(error)
                            self._stays(job_id, error)
                finally:
                    os.close(folder)
        except OSError as error:
            raise _away(error) from error
        tried = len(gone) + len(failed)
        serious = [error for error in failed if error.errno not in _OF_ONE]
        if serious and not gone and (len(serious) == tried > 1 or serious[0].errno in _OF_MOUNT):
            raise _away(serious[0]) from serious[0]
        # In the order in which they were asked for.
        return [job_id for job_id in job_ids if job_id in set(gone)]

    def _stays(self, job_id: str, error: OSError) -> None:
        if job_id not in self._told:
            log.warning("job_folder.stays", job=job_id, reason=str(error.strerror))
            self._told = {job_id} if len(self._told) >= _TOLD else self._told | {job_id}

    def _removed(self, folder: int, job_id: str, until: float) -> bool:
        try:
            if not stat.S_ISDIR(os.stat(job_id, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(job_id, dir_fd=folder)
                return True
        except FileNotFoundError:
            return True
        return remove_account_tree(folder, job_id, go_on=lambda: self._now() < until)


def _away(error: OSError) -> MountUnavailable:
    return MountUnavailable(f"Folders of jobs can't be removed now: {error.strerror}.")
