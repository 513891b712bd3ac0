"""Whether homes can be made on this machine, tried with a small one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from .id_maps import image_maps
from .model import HomeImpossible, HomeOrder, TaskHome
from .mounting import Namespace, mount_share
from .removal import clear

PROBE = ".probe"
_UID = 65_533
_REDIRECTS = Path("/sys/module/overlay/parameters/redirect_dir")


class Probe:
    """Tries homes in ``folder``, by ``make``."""

    def __init__(self, folder: Path, make: Callable[[Path, HomeOrder], TaskHome], namespace: Namespace) -> None:
        self._top = folder / PROBE
        self._layer = folder / f"{PROBE}-layer"
        self._make = make
        self._namespace = namespace

    def why_not(self, engine_root: Path | None, store: Path | None) -> str:
        """Why no home can be made, in one sentence. Empty: it works."""
        if os.geteuid() != 0:
            return "Homes need a Worker that runs as root."
        try:
            self._clear()
            try:
                return self._tried(engine_root, store)
            finally:
                with contextlib.suppress(OSError):
                    self._clear()
        except HomeImpossible as error:
            return error.message
        except OSError as error:
            return f"A home can't be made in {self._top.parent}: {error.strerror or error}."

    def _tried(self, engine_root: Path | None, store: Path | None) -> str:
        maps = image_maps((0, 0), (_UID, _UID))
        try:
            os.close(self._namespace(maps))
        except OSError as error:
            return f"The kernel gives the Worker no user namespace: {error.strerror or error}."
        if store is not None:
            try:
                mount_share(store, maps, self._namespace, None)
            except OSError as error:
                return (
                    f"The file system of {store} can't show an image's files as the task's, for which Linux 5.12 and a "
                    f"local file system are needed: {error.strerror}."
                )
        (self._layer / "root").mkdir(parents=True)
        (self._layer / "root/file").write_text("")
        home = self._make(self._top, HomeOrder(uid=_UID, gid=_UID, layers=(self._layer,)))
        merged = home.binds["/root"]
        if (merged / "file").stat().st_uid != _UID:
            return "The kernel does not show an image's files as the task's."
        (merged / "file").write_text("x")
        if (home.written / "home/file").stat().st_uid != _UID or (self._layer / "root/file").read_text():
            return "The kernel does not keep what a task writes apart from its image."
        if engine_root is not None and not _exists(engine_root / merged.relative_to("/") / "file"):
            return (
                f"The container engine does not see what the Worker mounts in {self._top.parent}. Let both run in one "
                "mount namespace."
            )
        if _follows_redirects():
            return (
                "The kernel's overlay renames folders of images (redirect_dir), so layers can't be used in parts. Set "
                "redirect_dir=off for the module overlay."
            )
        return ""

    def _clear(self) -> None:
        clear(self._top)
        clear(self._layer)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _follows_redirects() -> bool:
    try:
        return _REDIRECTS.read_text().strip() == "Y"
    except OSError:
        return False
