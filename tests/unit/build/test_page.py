"""The page's own tests and its generated client, by the Node.js that builds it."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def _npm(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    spec = importlib.util.spec_from_file_location("hatch_build", repository / "server" / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    npm, environment = hook.find_npm()
    return subprocess.run(
        [*npm, *arguments],
        cwd=repository / "httpserver" / "web",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_the_pages_own_tests_pass(repository: Path) -> None:
    done = _npm(repository, "test")
    assert done.returncode == 0, done.stdout[-5000:]


def test_the_pages_client_is_made_from_the_current_api_description(repository: Path, tmp_path: Path) -> None:
    made = tmp_path / "schema.ts"
    done = _npm(repository, "exec", "--", "openapi-typescript", "../openapi.json", "-o", str(made))
    assert done.returncode == 0, done.stdout[-5000:]
    committed = repository / "httpserver" / "web" / "src" / "api" / "generated" / "schema.ts"
    assert made.read_text() == committed.read_text(), "stale: npm run generate in httpserver/web"
