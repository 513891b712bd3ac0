"""Jobs whose images come from a real registry that lets one user in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headway.client.errors import Refused
from tests.docker.conftest import DOCKER_SETTINGS, Jobs, a_task
from tests.support.archives import Entry, TinyImage, docker_save, tiny_image
from tests.support.cluster import a_cluster, a_job
from tests.support.dockerd import Engine
from tests.support.images import busybox_entries
from tests.support.registry import PASSWORD, USER, Registry, a_registry
from worker.runtime.docker_images import MARK

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]


@contextmanager
def a_rig(folder: Path, docker_engine: Engine, **settings: Any) -> Iterator[tuple[Jobs, Registry]]:
    with (
        a_registry(folder / "registry", private=True) as registry,
        a_cluster(
            folder / "cluster",
            worker__docker_host=docker_engine.url,
            worker__pull_images=True,
            task_manager__platform_retries=0,
            **settings,
            **DOCKER_SETTINGS,
        ) as cluster,
    ):
        registry.serve_also_beside(docker_engine.pid)
        yield Jobs(cluster, docker_engine), registry
    docker_engine.remove_containers()
    client = docker_engine.client()
    for image in client.api.images():
        if any(registry.host in name for name in (image["RepoDigests"] or ())):
            client.api.remove_image(image["Id"], force=True)
    client.close()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, docker_engine: Engine) -> Iterator[tuple[Jobs, Registry]]:
    with a_rig(tmp_path_factory.mktemp("registry"), docker_engine) as rig:
        yield rig


def an_image(word: str) -> TinyImage:
    """A shell, and a file that says which one it is."""
    return tiny_image([*busybox_entries(), Entry("word", word.encode())], env={"PATH": "/bin"})


def sign_in(jobs: Jobs, registry: Registry) -> dict[str, Any]:
    path, body = f"/registries/{registry.host}", {"username": USER, "password": PASSWORD}
    found: dict[str, Any] = jobs.cluster.client.ask("PUT", path, json=body)
    return found


def test_a_job_runs_the_image_that_its_name_meant_at_submit(rig: tuple[Jobs, Registry]) -> None:
    jobs, registry = rig
    client = jobs.cluster.client
    first = registry.push("team/tool", "1", an_image("first"))
    task = a_task("cat /word; false", image=registry.name("team/tool:1"))
    with pytest.raises(Refused, match="shows it only to those who sign in"):
        client.submit(a_job(task))
    with pytest.raises(Refused, match="does not take"):
        client.ask("PUT", f"/registries/{registry.host}", json={"username": USER, "password": "wrong"})
    assert sign_in(jobs, registry)["checked"]
    job = jobs.run(task)
    (done,) = job["tasks"]
    assert (done["state"], done["reason"]["word"]) == ("FAILED", "exited"), done["reason"]
    assert (done["image"], done["image_digest"], done["image_source"]) == (task["image"], first.digest, "registry")
    assert client.log(job["id"], "a") == b"first"

    # The tag moves: a retry stays with the job's image, a new job gets the new one.
    second = registry.push("team/tool", "1", an_image("second"))
    client.act("retry", job["id"])
    assert client.wait(job["id"], timeout_s=60)["tasks"][0]["attempt"] == 2
    assert client.log(job["id"], "a") == b"first"
    again = jobs.run(a_task("cat /word", image=registry.name("team/tool:1")))
    assert (again["tasks"][0]["image_digest"], client.log(again["id"], "a")) == (second.digest, b"second")
    by_digest = jobs.run(a_task("cat /word", image=registry.name(f"team/tool@{first.digest}")))
    assert client.log(by_digest["id"], "a") == b"first"


def test_an_index_of_platforms_is_pinned_whole(rig: tuple[Jobs, Registry]) -> None:
    jobs, registry = rig
    sign_in(jobs, registry)
    index = registry.push_index("team/many", "1", [tiny_image(architecture="arm64"), an_image("many")])
    job = jobs.run(a_task("cat /word", image=registry.name("team/many:1")))
    assert job["tasks"][0]["image_digest"] == index.digest
    assert jobs.cluster.client.log(job["id"], "a") == b"many"


def test_each_failure_has_its_sentence(rig: tuple[Jobs, Registry]) -> None:
    jobs, registry = rig
    client = jobs.cluster.client
    sign_in(jobs, registry)
    registry.push("team/tool", "1", an_image("first"))
    for image in ("team/tool:9", "team/nothing:1", f"team/tool@sha256:{'9' * 64}"):
        with pytest.raises(Refused) as refused:
            client.submit(a_job(a_task("true", image=registry.name(image))))
        assert refused.value.problems[0].pointer == "/tasks/0/image"
        assert f"{registry.host} has no such image" in refused.value.problems[0].message
    registry.change_password()
    with pytest.raises(Refused, match=f"does not take the user name {USER}"):
        client.submit(a_job(a_task("true", image=registry.name("team/tool:1"))))
    registry.stop()
    told = client.submit(a_job(a_task("true", image=registry.name("team/elsewhere:1"))))
    assert "nobody listens there" in told["warnings"][0]
    (task,) = client.wait(told["id"], timeout_s=60)["tasks"]
    assert (task["state"], task["reason"]["word"]) == ("FAILED", "image_pull_failed"), task["reason"]
    assert registry.host in task["reason"]["sentence"]


def test_an_image_that_came_for_one_account_is_not_run_by_another(tmp_path: Path, docker_engine: Engine) -> None:
    """Where HttpServer reaches no registry, a name is looked up where the task runs. What one account's credentials had
    brought there used to run for whoever named it, and an image of the market for whoever wrote the start of its id."""
    with a_rig(tmp_path, docker_engine, httpserver__ask_registries=False) as (jobs, registry):
        ann, bob = jobs.cluster.client, jobs.cluster.user("bob")
        pushed = registry.push("team/secret", "1", an_image("secret"))
        sign_in(jobs, registry)
        names = registry.name("team/secret:1"), registry.name(f"team/secret@{pushed.digest}")
        ids = []
        for name in names:
            job = jobs.run(a_task("cat /word", image=name))
            assert (job["state"], ann.log(job["id"], "a")) == ("SUCCEEDED", b"secret"), job["tasks"][0]["reason"]
            ids.append(job["tasks"][0]["attempts"][0]["image_id"])
        archive = tmp_path / "private.tar"
        archive.write_bytes(docker_save(an_image("private")))
        uploaded = jobs.cluster.headway("images", "push", "private:1", "--from", str(archive))
        assert uploaded.returncode == 0, uploaded.stderr.decode()
        job = jobs.run(a_task("cat /word", image="private:1"))
        assert ann.log(job["id"], "a") == b"private", job["tasks"][0]["reason"]
        ids.append(job["tasks"][0]["image_digest"])

        refused, taken = [], [*names, "admin/private:1", f"admin/private@{ids[-1]}"]
        for image_id in dict.fromkeys(ids):
            bare = image_id.removeprefix("sha256:")
            refused += [bare[:2], bare[:12], bare, image_id, f"{MARK}:{bare}", f"{MARK}@{image_id}"]
            taken += [f"alice/bb@{image_id}", f"x@{image_id}", f"bob/x@{image_id}", registry.name(f"x@{image_id}")]
        for name in refused:
            with pytest.raises(Refused) as caught:
                bob.submit(a_job(a_task("cat /word", image=name)))
            assert caught.value.problems[0].pointer == "/tasks/0/image"
        tasks = [a_task("cat /word", name=f"t{number}", image=name) for number, name in enumerate(taken)]
        for task in bob.wait(bob.submit(a_job(*tasks))["id"], timeout_s=120, poll_s=0.2)["tasks"]:
            assert task["state"] == "FAILED", task
            assert task["reason"]["word"] in ("image_pull_failed", "image_not_found"), task
        bob.ask("PUT", f"/registries/{registry.host}", json={"username": USER, "password": PASSWORD})
        (task,) = bob.wait(bob.submit(a_job(a_task("true", image=names[0])))["id"], timeout_s=60, poll_s=0.1)["tasks"]
        assert task["state"] == "SUCCEEDED", task["reason"]
