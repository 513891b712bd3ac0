"""What a third party's policy may do is anything: raise whatever, answer whatever. It must not bring the queue down."""

from __future__ import annotations

import math
import signal
from numbers import Real


def finite_number(said: object) -> float:
    """What a policy gave, as a number.

    Raises:
        TypeError: it is something else.
        ValueError: it is not finite.
        OverflowError: it is too big.
    """
    if isinstance(said, bool) or not isinstance(said, Real):
        raise TypeError(f"its number is a {type(said).__name__}")
    found = float(said)
    if not math.isfinite(found):
        raise ValueError(f"its key is {found}")
    return found


def message_of(error: BaseException) -> str:
    """What an exception says; its kind, where it says nothing."""
    try:
        return str(error) or repr(error)
    except BaseException as worse:
        reraise_ctrl_c(worse)
        return type(error).__name__


def reraise_ctrl_c(error: BaseException) -> None:
    """Raises an exception that came out of a policy's code again if it is not the policy's own: somebody's ctrl-C where
    nothing else takes it, as in the simulator. What is left is a fault like any other, `SystemExit` too, and what looks
    like the end of a task of the event loop: a policy is called and never awaited, so that end comes from elsewhere."""
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        raise error
