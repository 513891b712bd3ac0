"""What limits of admission rule out, for whoever knows them and the cluster."""

from __future__ import annotations

from headway.units import format_duration


def reserve_leaves_none(kept: int, above_s: float, gpus: int) -> str:
    """Why ``kept`` GPUs for tasks of up to ``above_s`` can't be set aside of ``gpus`` in all; empty where they can, or
    where there are none to share out."""
    if not 0 < gpus <= kept:
        return ""
    return (
        f"The reserve for short tasks ({_gpus(kept)}) leaves none of the cluster's {gpus} for tasks longer than "
        f"{format_duration(above_s)}: they can never start."
    )


def _gpus(number: int) -> str:
    return f"{number} GPU" if number == 1 else f"{number} GPUs"
