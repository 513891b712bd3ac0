"""One cluster a file, with two people in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headway.client import Client
from tests.support.cluster import Cluster

from .door import a_job_with_secrets, a_watched_cluster, nothing_fails_inside


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_watched_cluster(tmp_path_factory.mktemp("hostile")) as running:
        yield running


@pytest.fixture(scope="module")
def ann(cluster: Cluster) -> Client:
    return cluster.user("ann")


@pytest.fixture(scope="module")
def bob(cluster: Cluster) -> Client:
    return cluster.user("bob")


@pytest.fixture(scope="module")
def anns_job(ann: Client) -> str:
    return a_job_with_secrets(ann)


@pytest.fixture(autouse=True)
def nothing_failed_inside(cluster: Cluster) -> Iterator[None]:
    with nothing_fails_inside(cluster):
        yield
