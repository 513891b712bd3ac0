"""What limits of admission rule out, for whoever knows them and the cluster."""

from __future__ import annotations

from headway.units import counted, format_duration


def reserve_leaves_none(kept: int, above_s: float, gpus: int) -> str:
    """Why ``kept`` GPUs for tasks of up to ``above_s`` can't be set aside of ``gpus`` in all; empty where they can, or
    where there are none to share out."""
    if not 0 < gpus <= kept:
        return ""
    return (
        f"The reserve for short tasks ({counted(kept, 'GPU')}) leaves none of the cluster's {gpus} for tasks longer "
        f"than {format_duration(above_s)}: they can never start."
    )
