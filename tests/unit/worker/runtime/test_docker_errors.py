"""What Docker Engine's refusals mean."""

from __future__ import annotations

import pytest
import requests
from docker.errors import APIError

from headway.model.reasons import EndWord
from worker.runtime.docker_errors import engine_in_trouble, of_image, pull_refusal, start_refusal
from worker.runtime.docker_facts import container_facts


def an_error(status: int, text: str) -> APIError:
    response = requests.Response()
    response.status_code = status
    return APIError("refused", response=response, explanation=text)


@pytest.mark.parametrize(
    ("status", "text", "want_word", "want_elsewhere"),
    [
        (400, "invalid mount config for type \"bind\": bind source path does not exist: /m/homes/a",
         EndWord.MOUNT_UNAVAILABLE, True),
        (500, 'could not select device driver "nvidia" with capabilities: [[gpu]]', EndWord.GPU_FAILED, True),
        (500, "OCI runtime create failed: nvidia-container-cli: device error: GPU-1: unknown device: unknown",
         EndWord.GPU_FAILED, True),
        (404, "No such image: sha256:1", EndWord.IMAGE_PULL_FAILED, True),
        (500, "write /var/lib/docker/x: no space left on device", EndWord.START_FAILED, True),
        (500, 'OCI runtime create failed: error mounting "/m/h" to rootfs at "/root/nfs": no such file or directory',
         EndWord.MOUNT_UNAVAILABLE, True),
        (400, 'OCI runtime create failed: exec: "/headway/launcher": permission denied: unknown',
         EndWord.START_FAILED, True),
        (500, "max depth exceeded", EndWord.IMAGE_BAD, False),
        (500, "bufio.Scanner: token too long", EndWord.IMAGE_BAD, False),
        (500, "layer does not exist", EndWord.START_FAILED, True),
        (500, "error creating overlay mount to /d/overlay2/0a/merged: no such file or directory",
         EndWord.START_FAILED, True),
    ],
)  # fmt: skip
def test_refusals_of_a_start(status: int, text: str, want_word: EndWord, want_elsewhere: bool) -> None:
    error = an_error(status, text)
    assert not engine_in_trouble(error)
    refusal = start_refusal(error, node="n1", image="x", gpus=True)
    assert (refusal.word, refusal.elsewhere) == (want_word, want_elsewhere)
    assert "OCI runtime" not in refusal.message


def test_a_missing_toolkit_names_the_worker() -> None:
    """GPU-01."""
    error = an_error(500, 'could not select device driver "nvidia" with capabilities: [[gpu]]')
    assert (
        "toolkit) is not installed on the machine n1" in start_refusal(error, node="n1", image="x", gpus=True).message
    )


def test_without_gpus_nothing_is_the_toolkits_fault() -> None:
    error = an_error(500, "OCI runtime create failed: error running hook #0: nvidia-container-cli: nvml error")
    assert start_refusal(error, node="n1", image="x", gpus=False).word is EndWord.START_FAILED
    assert start_refusal(error, node="n1", image="x", gpus=True).word is EndWord.GPU_FAILED


@pytest.mark.parametrize("name", ["nvidia-faces", "nvidia-container-cli", "libcuda", "cuda error", "hook timeout"])
def test_a_mount_with_a_name_like_the_toolkits_is_a_mount(name: str) -> None:
    """An admin was told to install the toolkit anew when a dataset's share was gone."""
    text = f'error mounting "/mnt/datasets/{name}/v1" to rootfs at "/root/datasets/{name}": stale NFS file handle'
    assert start_refusal(an_error(500, text), node="n1", image="x", gpus=True).word is EndWord.MOUNT_UNAVAILABLE


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (500, "connection error: desc = transport: dial unix /run/containerd/containerd.sock: connect: refused"),
        (500, "context deadline exceeded"),
        (503, "shutting down"),
        (409, "removal of container abc is already in progress"),
    ],
)
def test_an_engine_in_trouble_is_no_refusal(status: int, text: str) -> None:
    """REC-15: a hiccup of the engine used up the retries of a task."""
    assert engine_in_trouble(an_error(status, text))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("manifest for busybox:99 not found: manifest unknown: manifest unknown", EndWord.IMAGE_NOT_FOUND),
        ("pull access denied for no/such, repository does not exist or may require 'docker login'",
         EndWord.IMAGE_NOT_FOUND),
        ("Get \"https://registry-1.docker.io/v2/\": dial tcp: lookup registry-1.docker.io: no such host",
         EndWord.IMAGE_PULL_FAILED),
        ("Get \"https://r.example/v2/\": net/http: request canceled (Client.Timeout exceeded)",
         EndWord.IMAGE_PULL_FAILED),
        ("toomanyrequests: You have reached your pull rate limit", EndWord.IMAGE_PULL_FAILED),
        ("unauthorized: authentication required", EndWord.IMAGE_PULL_FAILED),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", EndWord.IMAGE_BAD),
        ("failed to register layer: write /x: no space left on device", EndWord.IMAGE_PULL_FAILED),
    ],
)  # fmt: skip
def test_refusals_of_a_registry(text: str, want: EndWord) -> None:
    assert pull_refusal(text, node="n1", image="x").word is want


def test_a_registry_that_could_not_be_asked_says_nothing_of_what_is_here() -> None:
    """Used to: "The image … is not on n1", where it was, and had run for the same account."""
    text = 'Get "https://r.example/v2/": dial tcp: lookup r.example: no such host'
    asked = pull_refusal(text, node="n1", image="r.example/x:1", asks_for="ann")
    assert asked.message.startswith("n1 could not ask the registry of the image r.example/x:1 whether ann may run it: ")
    assert asked.elsewhere
    assert "is not on n1" in pull_refusal(text, node="n1", image="r.example/x:1").message


def test_what_the_engine_says_of_a_container() -> None:
    state = {
        "Status": "exited",
        "ExitCode": 137,
        "OOMKilled": True,
        "StartedAt": "2026-01-02T03:04:05.5Z",
        "FinishedAt": "0001-01-01T00:00:00Z",
    }
    facts = container_facts({"Id": "c", "Image": "i", "State": state})
    assert (facts.exit_code, facts.oom_killed, facts.started_at, facts.ended_at) == (137, True, 1767323045.5, None)
    running = container_facts({"Id": "c", "State": {**state, "Status": "running"}})
    assert (running.exit_code, running.oom_killed) == (None, False)


def test_an_image_of_too_many_layers_is_no_fault_of_a_registry() -> None:
    """It was fetched again and again, on one machine after the other."""
    refusal = pull_refusal("failed to register layer: max depth exceeded", node="n1", image="x")
    assert (refusal.word, refusal.elsewhere) == (EndWord.IMAGE_BAD, False)
    assert "Squash it" in refusal.message


@pytest.mark.parametrize(
    ("status", "text", "of_the_image"),
    [
        (500, "cannot mount volume over existing file, file exists /d/overlay2/0a/merged/etc/hosts", True),
        (400, "invalid volume specification: 'data'", True),
        (500, "max depth exceeded", True),
        (500, "write /var/lib/docker/x: no space left on device", False),
        (500, "open /x: too many open files", False),
        (500, "context deadline exceeded", False),
        (503, "shutting down", False),
        (404, "No such image: sha256:1", False),
        (409, "removal of container abc is already in progress", False),
        (500, "layer does not exist", False),
        (500, "unknown layer", False),
        (500, "failed to get layer sha256:0a: layer does not exist", False),
        (500, "failed to get digest sha256:0a: open /d/image/overlay2/imagedb/content/sha256/0a: no such file", False),
        (500, "open /d/image/overlay2/imagedb/content/sha256/0a: no such file or directory", False),
        (500, "open /d/image/overlay2/layerdb/sha256/0a/cache-id: no such file or directory", False),
        (500, "error creating overlay mount to /d/overlay2/0a/merged: no such file or directory", False),
        (500, "error creating overlay mount to /d/overlay2/0a-init/merged: invalid argument", False),
        (500, "stat /var/lib/docker/overlay2/0a/diff: no such file or directory", False),
        (500, "readlink /var/lib/docker/overlay2/l/ABC: no such file or directory", False),
        (500, "stat /var/lib/docker/overlay2/0a: no such file or directory", False),
        (500, "error creating overlay mount to /d/overlay2/0a/merged: max depth exceeded", True),
        (500, "mkdir /d/overlay2/0a-init/merged/dev/shm: file exists", True),
        (500, "open /d/overlay2/0a/merged/imagedb/x: no such file or directory", True),
    ],
)
def test_a_container_of_the_image_alone_tells_whose_fault_it_is(status: int, text: str, of_the_image: bool) -> None:
    """A volume over a file was tried again every fifteen seconds, for ever."""
    refusal = of_image(an_error(status, text), image="x")
    assert (refusal is not None) is of_the_image
    if refusal is not None:
        assert refusal.word is EndWord.IMAGE_BAD
        assert "overlay2" not in refusal.message
