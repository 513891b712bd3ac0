"""Who runs, who has run, and who may still start: what the files and the lock of a box prove (docs/box.md).

The engine is never asked here. Launcher and Worker keep to one order of steps. A reader looks at ticket, lock and
end, in this order. So what he finds is proven:

* the launcher locks ``lock``, takes the ticket by a rename, runs the program, writes ``end``, and only then dies, which
  frees the lock;
* the Worker withdraws the ticket by a rename before it says that an attempt never started.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

from .files import open_regular, read_pairs, unlink, write_temporary
from .folders import exists, folder_of
from .layout import Box
from .orders import read_end
from .records import BoxError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Ticket(enum.StrEnum):
    """Where the launch ticket is. There is one for each attempt, for good."""

    READY = "ready"
    TAKEN = "taken"
    WITHDRAWN = "withdrawn"
    MISSING = "missing"


class BoxStanding(enum.StrEnum):
    """What a box proves about its attempt."""

    UNUSED = "unused"  # never laid out: no launcher can exist
    MAY_START = "may_start"  # no launcher lives, but one may still come and take the ticket
    RUNS = "runs"  # a launcher lives: the program runs, will run, or has just ended
    NEVER_STARTED = "never_started"  # the ticket was withdrawn: the program never runs
    ENDED = "ended"  # the launcher has recorded the end
    OTHER_BOOT = "other_boot"  # made before the machine booted, and without a record: nothing of it lives
    OVER = "over"  # the launcher is dead without a record: the program may have run, and does not any more
    UNKNOWN = "unknown"  # files are missing or broken: nothing is proven


@dataclass(frozen=True, slots=True)
class BoxFacts:
    """What was found in a box, in the order in which it has to be read. ``locked`` None: there is no lock to test."""

    laid_out: bool
    ticket: Ticket
    same_boot: bool
    same_attempt: bool
    locked: bool | None
    has_end: bool
    end_is_broken: bool = False
    has_started: bool = False


def judge(facts: BoxFacts) -> BoxStanding:
    """What these facts prove; see the table in docs/box.md. Pure."""
    if not facts.laid_out:
        return BoxStanding.UNUSED
    if not facts.same_attempt:
        return BoxStanding.UNKNOWN
    if facts.has_end and not facts.end_is_broken:
        return BoxStanding.ENDED
    if facts.ticket is Ticket.WITHDRAWN:
        return BoxStanding.NEVER_STARTED
    if not facts.same_boot:
        # Nothing of another boot lives. A rename of that boot may not have reached the disk, so the ticket proves
        # nothing; the launcher takes none of another boot.
        return BoxStanding.OTHER_BOOT
    if facts.locked:
        return BoxStanding.RUNS
    if facts.locked is None or facts.ticket is Ticket.MISSING:
        return BoxStanding.UNKNOWN
    # A launcher refuses a box in which one has started, whatever its ticket says.
    may_start = facts.ticket is Ticket.READY and not facts.has_started
    return BoxStanding.MAY_START if may_start else BoxStanding.OVER


def look(box: Box, *, attempt: str, boot_id: str) -> BoxFacts:
    """Reads a box: ticket, lock, end, in this order.

    A ticket that is seen as taken was taken under the lock. If the lock is free after that, its taker is dead. If there
    is no end after that, none will come.

    Args:
        attempt: name of the attempt's folder, which the ticket must have.
        boot_id: of this machine now.
    """
    if not exists(box.run):
        return BoxFacts(False, Ticket.MISSING, True, True, None, False)
    # Before the ticket: one that starts between two looks must not seem to be over.
    has_started = exists(box.started)
    ticket, pairs = _read_ticket(box)
    locked = is_locked(box)
    has_end, broken = _has_end(box)
    there = pairs.get("attempt", attempt)
    return BoxFacts(
        # A box of an older Headway has neither lock nor ticket. Whoever has read its spec may run.
        laid_out=locked is not None or has_end or any(exists(path) for path in _of_a_box(box)),
        ticket=ticket,
        same_boot=pairs.get("boot_id", boot_id) == boot_id,
        same_attempt=there == attempt,
        locked=locked,
        has_end=has_end,
        end_is_broken=broken,
        has_started=has_started,
    )


def _of_a_box(box: Box) -> tuple[Path, ...]:
    return (box.spec, box.ticket, box.ticket_taken, box.ticket_withdrawn)


def _read_ticket(box: Box) -> tuple[Ticket, dict[str, str]]:
    # A rename moves it on in one step: what is not in the first place is in one of the next, if it ever was anywhere.
    for place, ticket in (
        (box.ticket, Ticket.READY),
        (box.ticket_taken, Ticket.TAKEN),
        (box.ticket_withdrawn, Ticket.WITHDRAWN),
    ):
        try:
            pairs = read_pairs(place)
        except (OSError, BoxError):
            return Ticket.MISSING, {}  # something else lies there: nothing is proven
        if pairs is not None:
            if os.path.lexists(box.ticket_taken):
                ticket = Ticket.TAKEN  # a disk that lost a part of what was written: nothing takes that back
            # A power cut may leave it empty or cut off. What names neither attempt nor boot is no ticket.
            return (ticket, pairs) if pairs.get("attempt") and pairs.get("boot_id") else (Ticket.MISSING, {})
    return Ticket.MISSING, {}


def _has_end(box: Box) -> tuple[bool, bool]:
    """Whether there is an end record, and whether it makes no sense."""
    try:
        return read_end(box) is not None, False
    except (OSError, BoxError):
        return True, True


def boot_id() -> str:
    """The kernel's id of this boot of the machine."""
    return _BOOT_ID.read_text("ascii").strip()


def write_ticket(box: Box, *, attempt: str, boot_id: str) -> bool:
    """Makes the one launch ticket of a box, before any container exists. Safe twice. False if there was one before,
    wherever it is now. Raises OSError."""
    for place in (box.ticket, box.ticket_taken, box.ticket_withdrawn):
        if exists(place):
            return False
    text = f"attempt={attempt}\nboot_id={boot_id}\n".encode("ascii")
    with folder_of(box.ticket) as folder:
        temporary = write_temporary(folder, box.ticket.name, text)
        try:
            os.link(temporary, box.ticket.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            return False
        finally:
            unlink(temporary, folder)
    return True


def withdraw(box: Box) -> bool:
    """Takes the ticket back. True: the program has not started and never will. Safe twice. Raises OSError."""
    if os.path.lexists(box.ticket_taken):
        return False
    try:
        with folder_of(box.ticket) as folder:
            os.rename(box.ticket.name, box.ticket_withdrawn.name, src_dir_fd=folder, dst_dir_fd=folder)
    except FileNotFoundError:
        return exists(box.ticket_withdrawn) and not exists(box.ticket_taken)
    return True


def is_locked(box: Box) -> bool | None:
    """Whether a launcher lives. None: there is no lock file, so nothing is known.

    The lock is shared for an instant where nobody holds it; a launcher that comes in this instant tries again.
    """
    try:
        descriptor = open_regular(box.lock)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    else:
        return False
    finally:
        os.close(descriptor)


def holder(box: Box) -> int | None:
    """The pid of the launcher that holds the lock, as this process sees it; None if nobody does, or it can't be told.
    By ``/proc/locks``, whose lines name device and inode of the file."""
    try:
        with folder_of(box.lock) as folder:
            found = os.stat(box.lock.name, dir_fd=folder, follow_symlinks=False)
        lines = Path("/proc/locks").read_text("ascii").splitlines()
    except OSError:
        return None
    key = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    others = []
    for line in lines:
        words = line.split()
        if len(words) < 6 or words[1] != "FLOCK" or int(words[4]) <= 0:
            continue
        if words[5] == key:
            return int(words[4])
        if words[5].rpartition(":")[2] == str(found.st_ino):
            others.append(int(words[4]))
    # Some file systems, as btrfs, have another device there. Then the holder also sees the box as a mount.
    there = inhabitants(box) if others else []
    return next((pid for pid in others if pid in there), None)


def kill_launcher(box: Box, *, within_s: float) -> bool:
    """Ends the launcher and all of its container, without the engine: the kernel ends a container with its process 1.

    Blocks for up to ``within_s``. True: nobody holds the lock any more.
    """
    pid = holder(box)
    if pid is None:
        return is_locked(box) is False
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return is_locked(box) is False
    try:
        # The number may have gone to somebody else before the descriptor was open: only now it can't any more.
        if holder(box) != pid:
            return is_locked(box) is False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        # Process 1 of a container is gone only when all others in it are.
        select.select([descriptor], [], [], within_s)
    finally:
        os.close(descriptor)
    return is_locked(box) is False


def inhabitants(box: Box) -> list[int]:
    """Processes that see this box as a mount, as those of its container do, whatever became of the launcher.

    It looks at all processes of the machine. A box that was removed meanwhile is found as well.
    """
    root = box.root.resolve()
    place = _mounted_as(root / box.run.name), _mounted_as(root)
    wanted = {one for one in place if one is not None}
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                lines = (folder / "mountinfo").read_text("utf-8", "surrogateescape").splitlines()
            except OSError:
                continue
            if any(_source(line) in wanted for line in lines):
                found.append(int(folder.name))
    return found


def box_of_process(attempts_dir: Path, process: Path) -> str:
    """The name of the box that a process sees as a mount, empty if there is none. ``process`` is its folder in /proc.

    ``attempts_dir`` has all boxes. Outside of containers it may be a mount itself, which is no box.
    """
    place = _mounted_as(attempts_dir.resolve())
    try:
        lines = (process / "mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    for device, path in filter(None, map(_source, lines)):
        if place is not None and device == place[0] and path.startswith(f"{place[1].rstrip('/')}/"):
            return path[len(place[1].rstrip("/")) + 1 :].partition("/")[0]
    return ""


def _source(line: str) -> tuple[str, str] | None:
    """Device and path inside its file system of what a line of mountinfo mounts."""
    words = line.split(" ", 5)
    return (words[2], words[3].removesuffix("//deleted")) if len(words) > 4 else None


def _mounted_as(path: Path) -> tuple[str, str] | None:
    """How a bind mount of this folder is written in mountinfo."""
    best: tuple[int, str, str] | None = None
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        words = line.split(" ", 5)
        if len(words) < 5:
            continue
        root, point = words[3], words[4]
        inside = point == "/" or str(path) == point or str(path).startswith(f"{point}/")
        if inside and (best is None or len(point) >= best[0]):
            rest = str(path)[len(point) if point != "/" else 0 :]
            best = (len(point), words[2], (root.rstrip("/") + rest) or "/")
    return None if best is None else (best[1], best[2])
