"""The shared mount: where things lie, and whether it is really there.

    layout = Layout(config.cluster.mount)
    layout.attempt(attempt_id) / "stdout.log"
    probe = MountProbe(layout, config.cluster.name)
    state = await probe.check()                    # never hangs longer than its timeout, also on a dead NFS
    if not state.ok: hold work, show state.sentence

Paths come from ids that were checked, never from what a user typed. A marker file tells the mount from the bare
folder under it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from . import mount_rights
from .errors import ConfigInvalid, InvalidInput, MountUnavailable, StoreFull
from .ids import AttemptId, JobId, is_job_id, is_task_name

MARKER = ".headway-mount"
FOLDERS = ("homes", "jobs", "images", "datasets", "code")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"(sha256|sha512):([0-9a-f]{32,128})")
# A folder of Headway's is passed through by accounts on their way to what is theirs, but not listed.
_PASS_THROUGH = 0o711
_PROBE_BYTES = 4_096
_FULL_BELOW_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below the mount. Each method refuses (InvalidInput) an id of the wrong form; none touches the disk."""

    root: Path

    def __init__(self, root: str | Path) -> None:
        object.__setattr__(self, "root", Path(root))

    @property
    def marker(self) -> Path:
        """The file that only the real mount has."""
        return self.root / MARKER

    def home(self, account: str) -> Path:
        """An account's personal space; inside a task /root/nfs."""
        return self.root / "homes" / _checked(account, "account")

    def job(self, job_id: JobId) -> Path:
        """All that Headway keeps of a job."""
        if not is_job_id(job_id):
            raise InvalidInput(f"{job_id!r} is no job id.")
        return self.root / "jobs" / job_id

    def attempt(self, attempt: AttemptId) -> Path:
        """Command, stdout.log, stderr.log, platform.log and metrics of one attempt."""
        if not is_task_name(attempt.task.name) or attempt.number < 1:
            raise InvalidInput(f"{attempt} is no attempt.")
        return self.job(attempt.task.job_id) / attempt.task.name / str(attempt.number)

    def image(self, digest: str) -> Path:
        """The archives of an image of the market. `:` would end a path in a bind, so it becomes `-`."""
        found = _DIGEST.fullmatch(digest)
        if found is None:
            raise InvalidInput(f"{digest!r} is no image digest.")
        return self.root / "images" / f"{found[1]}-{found[2]}"

    def image_layer(self, diff_id: str) -> Path:
        """A layer of images of the market, shared by all that have it."""
        return self.root / "images" / "layers" / self.image(diff_id).name

    @property
    def image_uploads(self) -> Path:
        """Where archives lie until they are checked."""
        return self.root / "images" / ".uploads"

    def code(self, account: str, digest: str) -> Path:
        """A snapshot of an account's code; inside a task read-only at /root/code."""
        return self.code_of(account) / self.image(digest).name

    def code_of(self, account: str) -> Path:
        """All snapshots of an account, and the files that they share."""
        return self.root / "code" / _checked(account, "account")

    def dataset(self, name: str, version: str) -> Path:
        """One version of a dataset; inside a task read-only at /root/datasets/NAME."""
        return self.root / "datasets" / _checked(name, "dataset") / _checked(version, "version")


def _checked(name: str, kind: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} can't name a folder of a {kind}.")
    return name


class MountKind(Enum):
    """What a look at the mount found."""

    OK = "ok"
    MISSING = "missing"
    READ_ONLY = "read_only"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class MountState:
    """The state, with a sentence for people (empty when ok)."""

    kind: MountKind
    sentence: str = ""
    free_bytes: int = 0
    total_bytes: int = 0

    @property
    def ok(self) -> bool:
        """True when it can be read and written."""
        return self.kind is MountKind.OK

    @property
    def readable(self) -> bool:
        """True when what is on it can at least be read."""
        return self.kind is not MountKind.MISSING


def mount_state(layout: Layout, cluster: str, *, low_bytes: int = _FULL_BELOW_BYTES) -> MountState:
    """Looks once, by really writing and syncing a few bytes. May hang as long as the file system does."""
    root = layout.root
    try:
        marker = layout.marker.read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return MountState(MountKind.MISSING, f"{root} is not the shared mount: it has no {MARKER}. Is it mounted?")
    except OSError as error:
        return _from_oserror(root, error)
    if marker != cluster:
        return MountState(
            MountKind.MISSING, f"{root} belongs to the cluster {marker[:64]!r}, and this one is {cluster!r}."
        )
    try:
        stat = os.statvfs(root)
        free, total = stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize
        if free < low_bytes:
            return MountState(MountKind.FULL, f"{root} is full: {free >> 20} MiB are left.", free, total)
        _write_probe(root)
    except OSError as error:
        return _from_oserror(root, error)
    return MountState(MountKind.OK, "", free, total)


def _write_probe(root: Path) -> None:
    # Unique per process and thread: probes of many machines meet here.
    path = root / f".headway-probe-{os.uname().nodename}-{os.getpid()}-{threading.get_native_id()}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, b"\0" * _PROBE_BYTES)
        os.fsync(fd)
    finally:
        os.close(fd)
        with contextlib.suppress(OSError):
            path.unlink()


def _from_oserror(root: Path, error: OSError) -> MountState:
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return MountState(MountKind.FULL, f"{root} is full: {why}.")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        hint = " Perhaps its server squashes root: export it with `no_root_squash`." if _is_refused(error) else ""
        return MountState(
            MountKind.READ_ONLY, f"{root} can't be written by this service (uid {os.geteuid()}): {why}.{hint}"
        )
    return MountState(MountKind.MISSING, f"{root} does not answer as it should: {why}.")


class MountProbe:
    """Looks at the mount without ever hanging its caller.

    A look that hangs is left to its thread; until it comes back, the answer is MISSING and no second thread is
    started.
    """

    def __init__(self, layout: Layout, cluster: str, *, timeout_s: float = 5.0) -> None:
        self._layout = layout
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._look: asyncio.Future[MountState] | None = None

    async def check(self) -> MountState:
        """The state now."""
        look = self._look
        if look is None or look.done():
            look = self._look = self._start()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.shield(look)
        except TimeoutError:
            return MountState(
                MountKind.MISSING, f"{self._layout.root} has not answered for {self._timeout_s:g} s; it hangs."
            )

    async def require(self, *also: MountKind) -> MountState:
        """The state if it is ok, or one of ``also``.

        Raises:
            StoreFull: it is full.
            MountUnavailable: it isn't ok for another reason; the message says why.
        """
        state = await self.check()
        if state.ok or state.kind in also:
            return state
        kind = StoreFull if state.kind is MountKind.FULL else MountUnavailable
        raise kind(state.sentence, extra={"kind": state.kind.value})

    def _start(self) -> asyncio.Future[MountState]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[MountState] = loop.create_future()

        def finish(state: MountState) -> None:
            if not future.done():
                future.set_result(state)

        def look() -> None:
            try:
                state = mount_state(self._layout, self._cluster)
            except Exception as error:
                state = MountState(MountKind.MISSING, f"{self._layout.root} can't be looked at: {error!r}.")
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(finish, state)

        # A daemon thread of its own: a pool would wait at exit for a look that never comes back.
        threading.Thread(target=look, name="mount-probe", daemon=True).start()
        return future


def prepare_local(root: str | Path, cluster: str, *, used_before: bool = False) -> Layout:
    """Makes a local folder the shared mount of a one-machine cluster; safe to call again.

    The marker is written only where Headway was never before. A marker that is missing from a folder in use means that
    the real disk isn't mounted there. Writing to the bare folder would hide that.

    Raises:
        ConfigInvalid: the marker is missing from a used mount or names another cluster, or the folder can't be made.
    """
    layout = Layout(root)
    try:
        new = not layout.root.exists()
        layout.root.mkdir(parents=True, exist_ok=True)
        present = layout.marker.exists()
        if not present and (used_before or any((layout.root / name).exists() for name in FOLDERS)):
            raise ConfigInvalid(
                f"{layout.root} was Headway's shared folder before, but its file {MARKER} is missing: is the disk "
                f"mounted? If it is, write the line {cluster} into {layout.marker}."
            )
        if present:
            found = layout.marker.read_text("utf-8", "replace").strip()
            if found != cluster:
                raise ConfigInvalid(
                    f"{layout.root} belongs to the cluster {found[:64]!r}, and this one is {cluster!r}: choose "
                    "another folder."
                )
        if new:
            layout.root.chmod(_PASS_THROUGH)
        for name in FOLDERS:
            folder = layout.root / name
            if not folder.exists():
                folder.mkdir()
                folder.chmod(_PASS_THROUGH)
        if not present:
            _write_durably(layout.marker, f"{cluster}\n")
    except OSError as error:
        raise ConfigInvalid(f"{root} can't be used as the shared folder: {error.strerror}.") from error
    return layout


@contextlib.contextmanager
def reach(layout: Layout, cluster: str, path: Path) -> Iterator[Path]:
    """``path`` on the real mount: the path given leads there, whatever is unmounted or mounted meanwhile. Blocking.

    A look at the marker followed by a write to the path itself would, now and then, write to the bare folder.

    Raises:
        OSError: ENODEV if the mount is not there (or another cluster's), or what the file system says.
    """
    root = os.open(layout.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        anchor = Path(f"/proc/self/fd/{root}")
        if read_marker(anchor) != cluster:
            raise OSError(errno.ENODEV, f"{layout.root} is not mounted")
        yield anchor / path.relative_to(layout.root)
    finally:
        os.close(root)


def weak_options(layout: Layout) -> str:
    """What the mount's options allow that no task needs, in one sentence. Empty: nothing, or it is a plain folder.

    A task with ``user: image`` may be root in its container, and leaves files of root's. Blocking; raises OSError.
    """
    if not os.path.ismount(layout.root):
        return ""
    flags = os.statvfs(layout.root).f_flag
    missing = [name for name, flag in (("nosuid", os.ST_NOSUID), ("nodev", os.ST_NODEV)) if not flags & flag]
    if not missing:
        return ""
    return (
        f"{layout.root} is mounted without {' and '.join(missing)}: set-uid files and devices that a root task leaves "
        "there count on this machine. Mount it with `nosuid,nodev`."
    )


def ensure_home(layout: Layout, account: str, uid: int, gid: int) -> Path:
    """The account's home, made with mode 700 for its uid and gid if it isn't there. Blocking.

    Raises:
        StoreFull: the mount is full.
        MountUnavailable: the mount's `homes` is not there, or does not let it be made.
    """
    home = layout.home(account)
    try:
        made = _make_folder(home)
        if os.geteuid() == 0:
            stat = home.lstat()
            if (stat.st_uid, stat.st_gid) != (uid, gid):
                _give_home(layout, account, made, uid, gid)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(
                f"The shared folder is full, so there is no room for the personal space of {account}: make room on it, "
                "then try again."
            ) from error
        hint = " Perhaps the server of the shared folder squashes root." if _is_refused(error) else ""
        raise MountUnavailable(
            f"The home of {account}, {home}, can't be made by uid {os.geteuid()}: {error.strerror}.{hint}"
        ) from error
    return home


def _make_folder(folder: Path) -> bool:
    """Whether it was missing."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _give_home(layout: Layout, account: str, made: bool, uid: int, gid: int) -> None:
    home = layout.home(account)
    try:
        os.chown(home, uid, gid, follow_symlinks=False)
    except PermissionError as error:
        what = mount_rights.remedy(layout.root, mount_rights.squashed_uid(home)) if made else ""
        if made:
            with contextlib.suppress(OSError):  # half a home would only hide why
                home.rmdir()
        raise MountUnavailable(
            f"The home of {account}, {home}, can't be given to uid {uid}: {error.strerror}. "
            + (what or f"An admin has to do that on the server: `chown {uid}:{gid} {home}`.")
        ) from error


def _is_refused(error: OSError) -> bool:
    return os.geteuid() == 0 and error.errno in (errno.EACCES, errno.EPERM)


def read_marker(root: str | Path) -> str | None:
    """The name of the cluster that a folder belongs to; None if it has no marker."""
    try:
        return Layout(root).marker.read_text("utf-8", "replace").strip() or None
    except OSError:
        return None


def _write_durably(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.chmod(0o644)
    temporary.replace(path)
