"""A command that becomes another one for which the kernel has no openat2, as before Linux 5.6."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

# python -IS without_openat2.py PROGRAM ARGUMENT…
COMMAND = [sys.executable, "-IS", __file__]
# What a test runs under both: an older engine's filter of system calls may forbid openat2 as well.
KERNELS: dict[str, list[str]] = {"kernel of today": [], "kernel without openat2": COMMAND}

_OPENAT2, _ENOSYS = 437, 38
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_PROGRAM = (
    (0x20, 0, 0, 0),  # load the call's number
    (0x15, 0, 1, _OPENAT2),  # is it openat2?
    (0x06, 0, 0, _ERROR | _ENOSYS),
    (0x06, 0, 0, _ALLOW),
)


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def main() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    code = b"".join(struct.pack("=HBBI", *step) for step in _PROGRAM)
    for call in ((_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SECCOMP, _FILTER, ctypes.byref(_Filter(len(_PROGRAM), code)))):
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "the filter can't be set")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
