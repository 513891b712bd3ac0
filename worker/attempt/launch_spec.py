"""From a task's spec and its image to the launcher's spec. Pure."""

from __future__ import annotations

from headway.archive import places
from headway.errors import InvalidInput
from headway.jobfile.spec import Entrypoint, LogLimitAction, RunAs, Shell

from ..box import LaunchSpec, SecretPlace, container_command, new_place
from ..box import LogLimitAction as BoxLogLimitAction
from ..container_paths import CODE_DIR, DATASETS_DIR, HOME, NFS_DIR, SECRETS_DIR
from ..model import LaunchAttempt, LocalHold
from ..ports import LocalImage, StartOrder
from .environment import hold_facts, task_environment

_SHELLS = {Shell.SH: ("/bin/sh", "-e"), Shell.BASH: ("bash", "-e", "-o", "pipefail")}


def argv(launch: LaunchAttempt, image: LocalImage, *, place: str = "") -> tuple[str, ...]:
    """The arguments of exec. For a script they are its shell and the script's path.

    With ``entrypoint: replace`` the command replaces ENTRYPOINT and CMD. With ``image`` it is ENTRYPOINT's arguments.
    """
    spec = launch.spec
    if isinstance(spec.command, str):
        words: tuple[str, ...] = (*_SHELLS[spec.shell or Shell.SH], container_command(place))
    else:
        words = spec.command
    if spec.entrypoint is Entrypoint.IMAGE:
        return (*image_entrypoint(image), *words)
    return words


def image_entrypoint(image: LocalImage) -> tuple[str, ...]:
    """The image's ENTRYPOINT. One empty word takes an inherited one away, as engines read it."""
    return () if image.entrypoint == ("",) else image.entrypoint


def working_dir(launch: LaunchAttempt, image: LocalImage) -> str:
    """Where the process starts: the task's setting, its code, the image's setting, or else the root folder.

    Engines read an image's relative one from the root folder.
    """
    of_image = f"/{image.working_dir.lstrip('/')}"
    return launch.spec.working_dir or (CODE_DIR if launch.spec.code else of_image)


def dataset_versions(launch: LaunchAttempt) -> dict[str, str]:
    """Versions by name. An empty one means the newest. A job file may name a version, such as `mnist@2`."""
    versions = {}
    for entry in launch.spec.datasets:
        name, _, version = entry.partition("@")
        versions[name] = launch.dataset_versions.get(name) or launch.dataset_versions.get(entry) or version
    return versions


def mount_points(launch: LaunchAttempt) -> tuple[str, ...]:
    """Where its container has the home, datasets, code and secret files."""
    datasets = (f"{DATASETS_DIR}/{name}" for name in dataset_versions(launch))
    code = (CODE_DIR,) if launch.spec.code else ()
    files = (SECRETS_DIR,) if any(use.file for use in launch.spec.secrets) else ()
    return (NFS_DIR, *datasets, *code, *files)


def problem_of_image(image: LocalImage) -> str:
    """What no process can be given of the image's config. An upload is refused for it; others come from registries."""
    words = {"ENTRYPOINT": image.entrypoint, "USER": (image.user,), "WORKDIR": (image.working_dir,)}
    problems = (places.problem_of_words(setting, said) for setting, said in words.items())
    return places.problem_of_config((), image.env) or next(filter(None, problems), "")


def launch_spec(
    launch: LaunchAttempt, image: LocalImage, *, now: float, lease_grace_s: float, mps: bool = False
) -> LaunchSpec:
    """The launcher's spec. ``mps``: it uses NVIDIA MPS.

    Raises:
        InvalidInput: the owner may not run as the image's user, or there is nothing to run.
    """
    spec, owner = launch.spec, launch.owner
    as_account = spec.user is RunAs.ACCOUNT
    if not as_account and not owner.may_use_image_user:
        raise InvalidInput(f"{owner.name} may not run as the image's own user. Leave out `user: image`")
    problem = problem_of_image(image)
    if problem:
        raise InvalidInput(problem)
    place = new_place()
    args = argv(launch, image, place=place)
    if not args:
        raise InvalidInput("neither the task nor the image's ENTRYPOINT names a program to run")
    env = task_environment(launch, image, now=now, place=place, mps=mps)
    for use in spec.secrets:
        env.pop(use.env, None)  # the image's; the launcher sets this one
    return LaunchSpec(
        args=args,
        env=env,
        workdir=working_dir(launch, image),
        user=f"{owner.uid}:{owner.gid}" if as_account else (image.user or "0:0"),
        timeout_ms=max(1, round(spec.timeout_s * 1000)),
        grace_ms=round(spec.grace_s * 1000),
        lease_grace_ms=round(lease_grace_s * 1000),
        log_limit_bytes=spec.log_limit_bytes,
        log_limit_action=(
            BoxLogLimitAction.KILL if spec.log_limit_action is LogLimitAction.KILL else BoxLogLimitAction.DROP
        ),
        # A task that an admin allows to be root needs root's usual rights, to install packages for example.
        drop_caps=as_account,
        open_root=True,
        passwd_line=f"{owner.name}:x:{owner.uid}:{owner.gid}::{HOME}:/bin/sh" if as_account else None,
        group_line=f"{owner.name}:x:{owner.gid}:" if as_account else None,
        home=HOME,
        place=place,
        mounts=mount_points(launch),
        secrets=tuple(SecretPlace(use.file or use.env, is_file=bool(use.file)) for use in spec.secrets),
    )


def hold_order(
    launch: LaunchAttempt, local: LocalHold, *, now: float, until_boot_ns: int | None, grace_s: float
) -> StartOrder:
    """What a person's own process on this machine is given: GPUs, a time limit, and facts for its environment."""
    spec = launch.spec
    return StartOrder(
        attempt=launch.attempt,
        image=LocalImage(""),
        spec=LaunchSpec(
            args=(),
            env=hold_facts(launch, now),
            user="",
            timeout_ms=max(1, round(spec.timeout_s * 1000)),
            grace_ms=round(spec.grace_s * 1000),
            lease_grace_ms=round(grace_s * 1000),
        ),
        command=None,
        lease_until_boot_ns=until_boot_ns,
        cpus_centi=spec.resources.cpus_centi,
        memory_bytes=spec.resources.memory_bytes,
        shm_bytes=0,
        network=spec.network,
        gpu_uuids=launch.gpu_uuids,
        job_name=launch.job_name,
        owner=launch.owner.name,
        key_hash=local.key_hash,
    )
