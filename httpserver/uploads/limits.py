"""How large uploads may be. Pure."""

from __future__ import annotations

from headway.errors import StoreFull, TooLarge

_SPARE_BYTES = 16 << 20  # never filled by uploads: logs and results of tasks go to the same disk


def refuse_too_large(length: int | None, max_bytes: int) -> None:
    """``max_bytes`` 0: no limit.

    Raises:
        TooLarge: the whole is more than is taken.
    """
    if length is not None and max_bytes and length > max_bytes:
        raise TooLarge(f"The file has {size(length)}, and at most {size(max_bytes)} are taken here.")


def refuse_beyond(end: int, length: int | None, max_bytes: int) -> None:
    """
    Raises:
        TooLarge: bytes up to ``end`` are more than the upload has, or may have.
    """
    if length is not None and end > length:
        raise TooLarge(f"This upload has {length} bytes, and this piece goes beyond its end.")
    if length is None:
        refuse_too_large(end, max_bytes)


def refuse_without_space(more: int, free: int, promised: int) -> None:
    """
    Raises:
        StoreFull: ``more`` bytes do not fit in what is free, less what other uploads under way still bring.
    """
    left = max(0, free - _SPARE_BYTES - promised)
    if more > left:
        others = f", not counting {size(promised)} of other uploads under way" if promised else ""
        raise StoreFull(f"There is no space for it: {size(more)} are to come, and {size(left)} are left{others}.")


def size(number: int) -> str:
    """For people: ``1.5 GiB``."""
    value, unit = float(number), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{number} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
