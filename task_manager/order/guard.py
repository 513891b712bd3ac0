"""The guard around policies of third parties. Such code may raise or return anything and must not stop the queue."""

from __future__ import annotations

import math
import signal
from numbers import Real


def finite_number(value: object) -> float:
    """What a policy returned, as a number.

    Raises:
        TypeError: it is no number.
        ValueError: it is not finite.
        OverflowError: it is too big for a float.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"its number is a {type(value).__name__}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"its key is {number}")
    return number


def message_of(error: BaseException) -> str:
    """The message of an exception; its type's name if it has no message or fails to give one."""
    try:
        return str(error) or repr(error)
    except BaseException as worse:
        reraise_ctrl_c(worse)
        return type(error).__name__


def reraise_ctrl_c(error: BaseException) -> None:
    """Raises the exception again if it is a person's Ctrl-C that nothing else handles, as in the simulator.

    All else that comes out of a policy's code is a fault of the policy, `SystemExit` too. So is `CancelledError`: a
    policy is called and never awaited, so no cancellation of the event loop can reach it.
    """
    if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        raise error
