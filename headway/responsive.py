"""How a service stays responsive while it works hard in several threads, and small while it does nothing."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys


def stay_responsive() -> None:
    """For a service that holds very many objects, or works on them in other threads beside its event loop.

    Full garbage collections stop all threads and find next to nothing; with 10,000 tasks one took a third of a second.
    A loop that wants the interpreter waits five milliseconds for it, several times a call.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    sys.setswitchinterval(0.001)


def give_memory_back() -> None:
    """For a service that has started: gives back what only its start needed, one to three megabytes of free heap.

    Where the C library is not glibc, there is nothing to do.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
