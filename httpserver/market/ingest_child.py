"""The child process of ``ingest_process``: reads one archive and reports in lines of JSON. It ends with its parent."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import PurePosixPath
from typing import Any

from headway.archive import ArchiveLimits, ImageStore, SeveralImages, ingest
from headway.archive.disk import as_problems
from headway.errors import HeadwayError
from headway.mount import Layout, reach

_TELL_EVERY_S = 0.2
_GIVE_UP_S = 10.0


def main() -> None:
    """Reads one request from standard input, whose end means: give up."""
    # Unbuffered: a thread that waits in a buffer would hold up this process's end.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as asked:
        request = json.loads(asked.readline())
    os.nice(5)  # people who wait for a page come first
    cancelled = threading.Event()
    threading.Thread(target=_until_left, args=(cancelled,), daemon=True).start()
    told_at = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal told_at
        now = time.monotonic()
        if now >= told_at + _TELL_EVERY_S:
            told_at = now
            _say({"done": done, "total": total})

    layout = Layout(request["root"])
    try:
        with as_problems("The folder of the images"), reach(layout, request["cluster"], layout.root) as root:
            info = ingest(
                root / PurePosixPath(request["path"]),
                ImageStore(Layout(root)),
                choose=request["choose"],
                limits=ArchiveLimits(keep_free_bytes=request["keep_free_bytes"]),
                on_progress=progress,
                cancelled=cancelled.is_set,
            )
        _say({"info": info.to_json()})
    except SeveralImages as several:
        _say({"choices": list(several.choices), "message": several.message})
    except HeadwayError as error:
        _say({"slug": error.slug, "message": error.message})


def _until_left(cancelled: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    cancelled.set()
    time.sleep(_GIVE_UP_S)
    os._exit(1)


def _say(message: dict[str, Any]) -> None:
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The server was killed: nobody hears it, and what is under way is being given up.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
