"""What a kind of upload must provide: where the bytes go, and what happens once they are there.

The rest is done here. ``Uploads`` speaks tus, makes the file, writes, counts, hashes and removes it. It keeps the
record, resumes after a kill, and removes what has expired. The life of one upload, as its target sees it:

```
place = await target.begin(account, length, metadata)     # refuses here; afterwards the file is made and filled
await target.admit(upload, place, length)                 # only when the length was not known at the beginning:
                                                          # before each piece, and once it is known
outcome = await target.finish(upload, place, watch)       # in the background, once all bytes are there and synced
await target.abandon(upload, place)                       # instead, or after a finish that failed
```

After a kill at any moment, the next start calls :meth:`UploadTarget.finish` again from its beginning.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Protocol

from ..auth.model import Account


@dataclass(frozen=True, slots=True)
class UploadPlace:
    """Where the bytes of one upload lie, on the shared mount.

    The server makes the file (mode 600), writes it and, once the upload is over in whichever way, removes what is
    still there. Below ``folder`` no link is followed.
    """

    folder: str  # relative to the root of the mount, Headway's own to open, and there already: "images/.uploads"
    name: str  # below it, new for each upload; a folder in it is made when needed and removed once it is empty
    uid: int | None = None  # whose rights count below ``folder``; None: Headway's own
    gid: int | None = None

    @property
    def path(self) -> PurePosixPath:
        """Relative to the root of the mount: ``layout.root / place.path``."""
        return PurePosixPath(self.folder, self.name)


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """An upload as it is recorded."""

    id: str
    account: str  # who made it
    length: int  # bytes; 0 while it isn't known
    metadata: Mapping[str, str]  # Upload-Metadata, decoded; bytes that are no UTF-8 are kept as surrogates
    created_at: float
    choice: str = ""  # what the user picked after an UploadOutcome with choices


@dataclass(frozen=True, slots=True)
class UploadOutcome:
    """How a finish ended well: it is done, or the user has to pick one of ``choices``.

    With choices the bytes are kept, and finish is called again with ``StoredUpload.choice`` set.
    """

    result: Mapping[str, Any] = field(default_factory=dict)  # fit for JSON: {"image": …, "digest": …} or {"path": …}
    choices: tuple[str, ...] = ()


class FinishWatch:
    """How far a finish is, and whether to go on with it. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self.progress: float | None = None  # 0 to 1

    def report(self, done: int, total: int) -> None:
        """So much of the work is done."""
        self.progress = min(1.0, done / total) if total > 0 else None

    def cancel(self) -> None:
        """The upload was deleted, or the server stops: the target gives up soon, by whichever exception."""
        self._cancelled.set()

    def cancelled(self) -> bool:
        """Whether to give up."""
        return self._cancelled.is_set()


class UploadTarget(Protocol):
    """One kind of upload. All methods run on the event loop and do what blocks in threads of the target's own."""

    @property
    def kind(self) -> str:
        """As in the address: ``images`` or ``files``."""

    @property
    def at_once(self) -> int:
        """How many finishes may run at the same time."""

    async def begin(self, account: Account, length: int | None, metadata: Mapping[str, str]) -> UploadPlace:
        """Checks all that can be known now: metadata, names, rights, quota. Makes the place's folder, not the file.
        ``length`` is None when the client does not know it yet. Free space of the disk is checked by the server, which
        knows what other uploads were promised; where it refuses, abandon is called.

        Raises:
            HeadwayError: refused; the sentence goes to the client as it is.
        """

    async def admit(self, upload: StoredUpload, place: UploadPlace, length: int) -> None:
        """The length, unknown at begin, is at least this now; bytes may have come already. Called before each piece of
        such an upload, and once its length is known.

        Raises:
            HeadwayError: refused (quota, size); the upload stays and can be deleted.
        """

    def resumed(self, place: UploadPlace, length: int) -> None:
        """After a start, for each upload that is not over: what was promised to it is promised still. Never raises."""

    async def finish(self, upload: StoredUpload, place: UploadPlace, watch: FinishWatch) -> UploadOutcome:
        """All bytes are at the place, synced, and match the ``sha256`` of the metadata where one was given. Publishes
        them, in one step. May take minutes. Must be safe to call again after it was killed at any point, also just
        after it had published. What it leaves at the place (or whether it moved the file away) is all the same.

        Raises:
            Unavailable: not now (the mount is away): it is called again later, with growing pauses.
            HeadwayError: the upload has failed for good; the server removes the bytes and calls abandon.
        """

    async def abandon(self, upload: StoredUpload, place: UploadPlace) -> None:
        """The upload failed, was deleted or has expired, and its file is gone: drops whatever else is kept for it.
        Safe to call twice. Never raises."""

    async def sweep(self, live: Collection[UploadPlace]) -> None:
        """At start, before the first request: removes files of uploads that have no record. Never raises."""
