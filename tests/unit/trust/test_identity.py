"""What a certificate says of the service that has it."""

from __future__ import annotations

import pytest

from headway.trust.identity import Identity, Role, identity_of


def test_what_is_written_is_read() -> None:
    for identity in (Identity("lab", Role.TASK_MANAGER), Identity("lab.3", Role.WORKER, "gpu-1")):
        assert identity_of([identity.uri]) == identity
    assert Identity("lab", Role.WORKER, "GPU-1").dns_name == "gpu-1.worker.lab.headway"


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["https://lab/worker/a"],
        ["headway://lab/emperor/main"],
        ["headway://lab/worker/"],
        ["headway://lab/worker/a/b"],
        ["headway://lab/worker/a\n"],
        ["headway://lab/worker/a", "headway://lab/task_manager/main"],
    ],
)
def test_anything_else_is_nobody(uris: list[str]) -> None:
    assert identity_of(uris) is None
