"""From a task to what the launcher is told."""

from __future__ import annotations

import pytest

from headway.errors import InvalidInput
from headway.jobfile.spec import Entrypoint, LogLimitAction, RunAs, Shell
from tests.unit.worker.builders import a_launch
from worker.attempt.launch_spec import argv, launch_spec
from worker.box import LogLimitAction as BoxLogLimitAction
from worker.model import LaunchAttempt, Owner
from worker.ports import LocalImage

PLAIN = LocalImage("sha256:1", env=("PATH=/opt/bin", "HOME=/nowhere", "NVIDIA_VISIBLE_DEVICES=all", "broken"))
SERVER = LocalImage("sha256:2", entrypoint=("python", "-m", "http.server"), cmd=("8000",), user="app:app")


def env_of(launch: LaunchAttempt, image: LocalImage = PLAIN) -> dict[str, str]:
    return dict(launch_spec(launch, image, now=1_800_000_000.9, lease_grace_s=10).env)


@pytest.mark.parametrize(
    ("more", "image", "want"),
    [
        ({}, PLAIN, ("/bin/sh", "-e", "/box/attempt/command")),
        ({"shell": Shell.BASH}, PLAIN, ("bash", "-e", "-o", "pipefail", "/box/attempt/command")),
        ({"command": ("echo", "$HOME")}, PLAIN, ("echo", "$HOME")),
        ({"command": ("echo", "ok")}, SERVER, ("echo", "ok")),
        (
            {"command": ("9000",), "entrypoint": Entrypoint.IMAGE},
            SERVER,
            ("python", "-m", "http.server", "9000"),
        ),
    ],
)
def test_what_is_executed(more: dict[str, object], image: LocalImage, want: tuple[str, ...]) -> None:
    assert argv(a_launch(**more), image, place="/box") == want


def test_each_attempt_has_a_box_at_a_place_of_its_own() -> None:
    """An image that knew the place could have something there."""
    one, two = (launch_spec(a_launch(), PLAIN, now=0, lease_grace_s=10) for _ in range(2))
    assert one.place != two.place
    assert len(one.place) > 32
    assert one.args[-1] == f"{one.place}/attempt/command"
    assert one.mounts == ("/root/nfs",)


def test_the_environment_of_a_task() -> None:
    spec = launch_spec(
        a_launch(env=(("LR", "0.01"), ("PYTHONUNBUFFERED", "0"))), PLAIN, now=1_800_000_000.9, lease_grace_s=10
    )
    env = spec.env
    assert env["PATH"] == "/opt/bin"
    assert env["HOME"] == "/root"
    assert env["USER"] == "ann"
    assert env["LR"] == "0.01"
    assert env["PYTHONUNBUFFERED"] == "0", "the user's own value stands over the default"
    assert env["HEADWAY_JOB_ID"] == "j0123456789abcdef"
    assert env["HEADWAY_JOB_NAME"] == "digits"
    assert env["HEADWAY_TASK_NAME"] == "train"
    assert env["HEADWAY_ATTEMPT"] == "1"
    assert env["HEADWAY_USER"] == "ann"
    assert env["HEADWAY_CPUS"] == "1.5"
    assert env["HEADWAY_MEMORY_MIB"] == "4096"
    assert env["HEADWAY_GPUS"] == "0"
    assert env["HEADWAY_GPU_UUIDS"] == ""
    assert env["HEADWAY_TIMEOUT_SECONDS"] == "600"
    assert env["HEADWAY_DEADLINE"] == "1800000600"
    assert env["HEADWAY_NFS_DIR"] == "/root/nfs"
    assert env["HEADWAY_ATTEMPT_DIR"] == f"{spec.place}/attempt"


def test_prints_of_python_show_at_once_unless_the_image_says_otherwise() -> None:
    assert env_of(a_launch())["PYTHONUNBUFFERED"] == "1"
    assert env_of(a_launch(), LocalImage("x", env=("PYTHONUNBUFFERED=",)))["PYTHONUNBUFFERED"] == ""


def test_no_task_without_gpus_sees_one_whatever_image_and_user_say() -> None:
    assert env_of(a_launch(env=(("NVIDIA_VISIBLE_DEVICES", "all"),)))["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_a_task_with_gpus_is_told_which() -> None:
    env = env_of(a_launch(gpu_uuids=("GPU-a", "GPU-b")))
    assert env["NVIDIA_VISIBLE_DEVICES"] == env["HEADWAY_GPU_UUIDS"] == "GPU-a,GPU-b"
    assert env["HEADWAY_GPUS"] == "2"


def test_nobody_may_pretend_to_be_another_attempt() -> None:
    assert env_of(a_launch(env=(("HEADWAY_ATTEMPT", "9"),)))["HEADWAY_ATTEMPT"] == "1"


def test_an_account_runs_with_its_ids_its_name_and_no_powers() -> None:
    spec = launch_spec(a_launch(), SERVER, now=0.0, lease_grace_s=10)
    assert spec.user == "20001:20001"
    assert spec.passwd_line == "ann:x:20001:20001::/root:/bin/sh"
    assert spec.group_line == "ann:x:20001:"
    assert spec.drop_caps
    assert spec.open_root


def test_the_image_user_needs_the_grant_of_an_admin() -> None:
    with pytest.raises(InvalidInput, match="may not run as the image's own user"):
        launch_spec(a_launch(user=RunAs.IMAGE), SERVER, now=0.0, lease_grace_s=10)
    granted = Owner("ann", 20_001, 20_001, may_use_image_user=True)
    spec = launch_spec(a_launch(user=RunAs.IMAGE, owner=granted), SERVER, now=0.0, lease_grace_s=10)
    assert spec.user == "app:app"
    assert spec.passwd_line is None
    assert spec.env["USER"] == "app"
    as_root = launch_spec(a_launch(user=RunAs.IMAGE, owner=granted), PLAIN, now=0.0, lease_grace_s=10)
    assert as_root.user == "0:0"
    assert as_root.env["USER"] == "root"


def test_limits_in_the_launchers_units() -> None:
    launch = a_launch(timeout_s=0.0004, grace_s=1.5, log_limit_action=LogLimitAction.KILL, log_limit_bytes=99)
    spec = launch_spec(launch, PLAIN, now=0.0, lease_grace_s=10)
    assert (spec.timeout_ms, spec.grace_ms, spec.lease_grace_ms) == (1, 1500, 10_000)
    assert (spec.log_limit_bytes, spec.log_limit_action) == (99, BoxLogLimitAction.KILL)


@pytest.mark.parametrize(
    ("own", "image", "want"), [(None, "", "/"), (None, "/app", "/app"), ("/root/nfs", "/app", "/root/nfs")]
)
def test_the_working_folder(own: str | None, image: str, want: str) -> None:
    spec = launch_spec(a_launch(working_dir=own), LocalImage("x", working_dir=image), now=0.0, lease_grace_s=1)
    assert spec.workdir == want


def test_an_images_entry_without_a_value_takes_an_earlier_one_away() -> None:
    """As engines read it; `A` used to be set to nothing."""
    env = env_of(a_launch(), LocalImage("x", env=("A=1", "B=2", "A", "C")))
    assert (env.get("A"), env["B"], "C" in env) == (None, "2", False)


@pytest.mark.parametrize(
    ("image", "want"),
    [
        (
            LocalImage("x", env=("A=b\0c",)),
            "The image's environment variable 'A' holds a zero byte. Build it without this ENV",
        ),
        (
            LocalImage("x", env=("=y",)),
            "The image has an environment variable without a name, '=y'. Build it without this ENV",
        ),
        (
            LocalImage("x", user="a\0b"),
            "The image says USER 'a\\x00b', which holds a zero byte. Build it without it",
        ),
        (
            LocalImage("x", entrypoint=("a\0b",)),
            "The image says ENTRYPOINT 'a\\x00b', which holds a zero byte. Build it without it",
        ),
    ],
)
def test_what_no_process_can_be_given_is_told_before_a_box_is_made(image: LocalImage, want: str) -> None:
    """It used to be the machine's fault, "could not write the task's files", and was tried elsewhere."""
    with pytest.raises(InvalidInput) as refused:
        launch_spec(a_launch(), image, now=0, lease_grace_s=10)
    assert refused.value.message == want
