"""Loads NVIDIA's library anew after the driver was updated while this process runs.

The old library stays in the process, and never fits the new driver. Under its own name the system would give it back
again, so the new file is loaded by its full path. Nothing is unloaded: another thread may be in it.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import pynvml

from headway.logs import get_logger

log = get_logger(__name__)

_NAME = "libnvidia-ml.so"


def load_anew(maps: Path = Path("/proc/self/maps")) -> bool:
    """Use the library that lies on the disk now. False: it is the one that was loaded already."""
    try:
        mapped = [line.split(maxsplit=5)[5] for line in maps.read_text().splitlines() if _NAME in line]
    except OSError:
        return False
    if not mapped:
        return False
    loaded = {name for name in mapped if not name.endswith(" (deleted)")}
    now = (Path(mapped[-1].removesuffix(" (deleted)")).parent / f"{_NAME}.1").resolve()
    if str(now) in loaded or not now.exists():
        return False
    try:
        library = ctypes.CDLL(str(now))
    except OSError as error:
        log.warning("gpu.library_not_loaded", reason=str(error))
        return False
    with pynvml.libLoadLock:
        pynvml.nvmlLib = library
        pynvml._nvmlGetFunctionPointer_cache.clear()
    log.info("gpu.library_loaded_anew", path=str(now))
    return True
