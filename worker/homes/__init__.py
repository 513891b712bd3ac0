"""Homes: `/root` of a container as the task's own, with all that the image left in it.

The image's `root` folders are shown as the task's by idmapped mounts, and an overlay catches what is written.
Nothing is copied and no owner is changed, so a home with 100,000 files is as quick as an empty one (ADR 47).

    homes = TaskHomes(folder, user_namespace=(str(launcher_path()), "user-namespace"))
    if not (why := homes.probe()):
        home = homes.prepare(attempt, HomeOrder(uid=100_001, gid=100_001, layers=layers))
        ...  # bind home.binds into the container
        homes.remove(attempt)

A home is these folders, of which none is bound into a container as a whole::

    <attempt>/root      where the home is mounted
    <attempt>/written   what the task writes: `home`, and folders for `own` and for volumes below /tmp
    <attempt>/own       where folders of the image's own user are mounted
    <attempt>/work      the overlays' own
    <attempt>/layers    where layers are mounted for a moment, by kernels before 6.13
    <attempt>/shares    shares that are shown as the task's own
"""

from .image_user import ImageUser, image_user
from .model import HomeImpossible, HomeOrder, TaskHome
from .task_homes import TaskHomes

__all__ = ["HomeImpossible", "HomeOrder", "ImageUser", "TaskHome", "TaskHomes", "image_user"]
