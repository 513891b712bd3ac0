"""The page's own unit tests, its types, its generated client and its lock file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = [pytest.mark.web, pytest.mark.slow]


def npm(hook: ModuleType, folder: Path, *arguments: str) -> None:
    command, env = hook.find_npm()
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**env, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode(errors="replace")


def test_the_pure_parts(build_hook: ModuleType, web_folder: Path) -> None:
    npm(build_hook, web_folder, "test")


def test_the_generated_client_is_fresh(build_hook: ModuleType, web_folder: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "schema.ts"
    npm(build_hook, web_folder, "exec", "--", "openapi-typescript", "../openapi.json", "-o", str(fresh))
    committed = web_folder / "src" / "api" / "generated" / "schema.ts"
    assert fresh.read_text() == committed.read_text(), "run `npm run generate` in httpserver/web"


def test_the_lock_file_names_no_registry_and_the_versions_are_exact(repository: Path) -> None:
    web = repository / "httpserver" / "web"
    lock = json.loads((web / "package-lock.json").read_text())
    assert [name for name, entry in lock["packages"].items() if "resolved" in entry] == []
    assert [name for name, entry in lock["packages"].items() if name and "integrity" not in entry] == []
    package = json.loads((web / "package.json").read_text())
    versions = {**package["dependencies"], **package["devDependencies"]}
    assert {name: v for name, v in versions.items() if not v.replace(".", "").isdecimal()} == {}
