"""Reads large job files in a process of its own.

Reading YAML holds Python's global lock for a second, and all other requests would wait for it. The process starts with
the first large file and takes one file at a time. It ends after a while without work, so that an idle server has no
second interpreter. A file that makes it run out of time or memory ends that process only.

Run as ``python -m httpserver.jobs.job_file_process`` it is the child: length-prefixed pickles in and out. Both ends are
this program; nothing that a user sent is ever unpickled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import struct
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO

from headway.errors import TooMany, Unavailable
from headway.logs import get_logger
from headway.turns import Turns

if TYPE_CHECKING:
    from headway.clock import Clock

log = get_logger(__name__)

_LENGTH = struct.Struct(">I")
_TIME_LIMIT_S = 30.0
_IDLE_S = 20.0
_MOST_WAITING = 16
_MEMORY_BYTES = 4 << 30  # address space; a job file of 8 MiB needs a tenth


class JobFileProcess:
    """Calls functions of ``job_file`` in the child process, one at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._turns = Turns(1)
        self._waiting: Counter[str] = Counter()  # by account
        self._idle: asyncio.Task[None] | None = None

    async def call(self, name: str, *args: Any, turn: str) -> Any:
        """The result of ``job_file.<name>(*args)``; ``turn``: the account whose turn it takes.

        Raises:
            TooMany: too many large files wait already.
            Unavailable: the process did not survive this file, or took too long over it.
        """
        if self._waiting[turn] >= _MOST_WAITING:
            raise TooMany("Many large job files are being read; try again soon.", extra={"retry_after_s": 5})
        self._waiting[turn] += 1
        try:
            async with self._turns.of(turn):
                self._stop_idling()
                try:
                    return await self._ask(pickle.dumps((name, args), protocol=5))
                finally:
                    self._idle = asyncio.create_task(self._end_when_idle())
        finally:
            self._waiting[turn] -= 1
            if not self._waiting[turn]:
                del self._waiting[turn]

    async def close(self) -> None:
        """Ends the process. Safe to call twice."""
        self._stop_idling()
        await self._end()

    async def _ask(self, request: bytes) -> Any:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_TIME_LIMIT_S):
                process.stdin.write(_LENGTH.pack(len(request)) + request)
                await process.stdin.drain()
                head = await process.stdout.readexactly(_LENGTH.size)
                answer = await process.stdout.readexactly(_LENGTH.unpack(head)[0])
        except TimeoutError:
            await self._end()
            raise Unavailable(f"This job file could not be read within {_TIME_LIMIT_S:g} s.") from None
        except (OSError, EOFError) as error:  # IncompleteReadError is an EOFError
            await self._end()
            log.error("jobfile.process_died", reason=str(error))
            raise Unavailable("The process that reads job files ended over this one; try again.") from error
        except asyncio.CancelledError:
            # Its answer would be taken for that of the next question.
            await self._end()
            raise
        ok, result = pickle.loads(answer)
        if not ok:
            raise RuntimeError(f"reading a job file failed: {result}")
        return result

    async def _start(self) -> asyncio.subprocess.Process:
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV") if name in os.environ}
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __name__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**keep, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            limit=1 << 20,
        )

    async def _end_when_idle(self) -> None:
        await self._clock.sleep(_IDLE_S)
        async with self._turns.of(""):
            await self._end()

    def _stop_idling(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _serve(questions: BinaryIO, answers: BinaryIO) -> None:
    from . import job_file

    while head := questions.read(_LENGTH.size):
        name, args = pickle.loads(questions.read(_LENGTH.unpack(head)[0]))
        try:
            result = (True, getattr(job_file, name)(*args))
        except MemoryError:
            raise
        except Exception as error:
            result = (False, f"{type(error).__name__}: {error}")
        data = pickle.dumps(result, protocol=5)
        answers.write(_LENGTH.pack(len(data)) + data)
        answers.flush()


def main() -> None:
    """What the child process does."""
    import resource
    import signal

    # A ctrl-C in the terminal is meant for the server, which closes this pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    os.nice(5)
    _serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
