"""Waiting for something that happens outside the test's hands: a process, a container, another thread."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")


@overload
async def eventually(
    check: Callable[[], Awaitable[T | None]], *, within_s: float = ..., every_s: float = ..., what: str = ...
) -> T: ...


@overload
async def eventually(
    check: Callable[[], T | None], *, within_s: float = ..., every_s: float = ..., what: str = ...
) -> T: ...


async def eventually(check: Callable[[], Any], *, within_s: float = 30.0, every_s: float = 0.02, what: str = "") -> Any:
    """Ask ``check`` until it answers something true, and return that.

    An AssertionError raised by ``check`` counts as "not yet" and is the failure shown when the time is over.
    Only for real processes and threads: where a clock can be advanced, advance it.
    """
    give_up_at = time.monotonic() + within_s
    while True:
        problem: AssertionError | None = None
        try:
            answer = check()
            value = await answer if inspect.isawaitable(answer) else answer
            if value:
                return value
        except AssertionError as error:
            problem = error
        if time.monotonic() >= give_up_at:
            raise AssertionError(f"not within {within_s:g} s: {what or _describe(check)}") from problem
        await asyncio.sleep(every_s)


def soon(check: Callable[[], T | None], *, within_s: float = 30.0, every_s: float = 0.02, what: str = "") -> T:
    """``eventually`` for tests that are not coroutines."""
    give_up_at = time.monotonic() + within_s
    while True:
        problem: AssertionError | None = None
        try:
            value = check()
            if value:
                return value
        except AssertionError as error:
            problem = error
        if time.monotonic() >= give_up_at:
            raise AssertionError(f"not within {within_s:g} s: {what or _describe(check)}") from problem
        time.sleep(every_s)


def _describe(check: Callable[[], object]) -> str:
    try:
        return inspect.getsource(check).strip()
    except (OSError, TypeError):
        return repr(check)
