"""GPUs of this machine for a Python program: ``with headway.gpus(1, timeout="2h") as devices:``."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterable
from types import TracebackType

from ..errors import InvalidInput
from .gpu_holding import HOLD_VARIABLE, STOP_SENTENCES, Device, Holding, Wanted

_OURS = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", HOLD_VARIABLE)


class gpus:  # people write it like a function
    """Queue for GPUs of the machine that this program runs on, and hold them inside of the block.

    Args:
        count: how many; with ``ids`` it may be left out.
        timeout: for how long at most, such as ``"2h"``. Waiting is free. Then this process gets SIGTERM, and SIGKILL
            ``grace`` later: what a program has on a GPU goes only with the program.
        model: any of these models, such as ``"A100"``.
        ids: exactly these GPUs.
        set_environment: set CUDA_VISIBLE_DEVICES inside of the block. CUDA must not have been used before.
        quiet: say nothing on standard error while it waits.

    A GPU that fails meanwhile is told by a ``RuntimeWarning``, and the program goes on.

    An object holds GPUs once at a time: for more of them inside of the block, make another one.

    Entering yields a list of UUIDs, each with ``index`` and ``model``.

    Raises:
        headway.errors.HeadwayError: on entering, with one sentence.
    """

    def __init__(
        self,
        count: int | None = None,
        *,
        timeout: str,
        model: str | Iterable[str] = (),
        ids: str | Iterable[str | int] = (),
        grace: str = "10s",
        name: str = "",
        node: str = "",
        set_environment: bool = True,
        quiet: bool = False,
    ) -> None:
        self._wanted = Wanted(
            gpus=count,
            timeout=timeout,
            models=_several(model),
            ids=_several(ids),
            grace=grace,
            name=name,
            node=node,
            command=tuple(sys.argv[:1]) or ("python",),
        )
        self._set_environment = set_environment
        self._quiet = quiet
        self._before: dict[str, str | None] = {}
        self._holding: Holding | None = None
        self._pid = 0

    def __enter__(self) -> list[Device]:
        if self._holding is not None and self._pid == os.getpid():
            raise InvalidInput("These GPUs are held already: make another headway.gpus(...) for more of them.")
        self._pid = os.getpid()
        self._holding = Holding(self._wanted, tell=self._tell, on_stop=self._end, warn=_warn)
        try:
            devices = self._holding.acquire()
        except BaseException:
            self._holding = None
            raise
        if self._set_environment:
            environment = self._holding.environment()
            self._before = {name: os.environ.get(name) for name in _OURS}
            os.environ.update({name: environment[name] for name in _OURS})
        return devices

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._holding is None or os.getpid() != self._pid:
            return  # a forked child leaves the block: the GPUs are its parent's
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._holding.give_back(0 if kind is None else 1)
        self._holding = None

    def _tell(self, line: str) -> None:
        if not self._quiet:
            print(f"headway: {line}", file=sys.stderr, flush=True)  # noqa: T201

    def _end(self, why: str, grace_s: float) -> None:
        """By the thread that listens: the program must end."""
        holding = self._holding
        why = STOP_SENTENCES.get(why, "It has to end.")
        print(f"headway: {why} This program gets SIGTERM.", file=sys.stderr, flush=True)  # noqa: T201
        os.kill(self._pid, signal.SIGTERM)

        def kill() -> None:
            if holding is not None and self._holding is holding:
                os.kill(self._pid, signal.SIGKILL)

        timer = threading.Timer(grace_s, kill)
        timer.daemon = True
        timer.start()


def _warn(sentence: str) -> None:
    """By the thread that listens. A filter that makes errors of warnings must not end it: it keeps the GPUs."""
    try:
        warnings.warn(f"{sentence} The program goes on.", RuntimeWarning, stacklevel=2)
    except RuntimeWarning as error:
        print(f"headway: {error}", file=sys.stderr, flush=True)  # noqa: T201


def _several(value: str | Iterable[str | int]) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else [value] if isinstance(value, int) else value
    return tuple(text for word in words if (text := str(word).strip()))
