"""The package's build hook: the page is built by PyPI's Node.js, once for the same sources."""

from __future__ import annotations

import importlib.util
import json
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow  # npm takes a second each time


@pytest.fixture(scope="module")
def hook(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", repository / "server" / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hatch_build"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a page that one small script builds, on a machine whose PATH has no Node.js."""
    # Only what npm's own shell needs.
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "env"):
        (tools / tool).symlink_to(f"/usr/bin/{tool}")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("HEADWAY_SKIP_WEB", raising=False)
    root = tmp_path / "checkout"
    web = root / "httpserver" / "web"
    (web / "src").mkdir(parents=True)
    (web / "src" / "text").write_text("first")
    package = {"name": "page", "version": "1.0.0", "private": True, "scripts": {"build": "node build.js"}}
    (web / "package.json").write_text(json.dumps(package))
    (web / "package-lock.json").write_text(
        json.dumps({"name": "page", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": package}})
    )
    (web / "build.js").write_text(
        "const fs = require('fs');\n"
        "fs.mkdirSync('../static/assets', {recursive: true});\n"
        "const text = fs.readFileSync('src/text', 'utf8');\n"
        "if (text === 'broken') { console.log('src/text: broken'); process.exit(3); }\n"
        "fs.writeFileSync('../static/index.html', text);\n"
        "fs.writeFileSync(`../static/assets/${text}.js`, text);\n"
    )
    return root


def test_the_page_is_built_without_nodejs_on_the_machine_and_only_when_sources_change(
    hook: ModuleType, checkout: Path
) -> None:
    static = checkout / "httpserver" / "static"
    assert hook.build_web(checkout)
    assert (static / "index.html").read_text() == "first"
    assert not hook.build_web(checkout)
    (checkout / "httpserver" / "web" / "node_modules" / "whatever").write_text("not a source")
    assert not hook.build_web(checkout)
    (checkout / "httpserver" / "web" / "src" / "text").write_text("second")
    assert hook.build_web(checkout)
    # The older page's files are gone: two versions of a script in one wheel would only confuse.
    assert [path.name for path in (static / "assets").iterdir()] == ["second.js"]


def test_a_page_that_does_not_build_fails_with_its_output_and_leaves_no_page(
    hook: ModuleType, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "httpserver" / "web" / "src" / "text").write_text("broken")
    with pytest.raises(hook.BuildFailed, match="exit status 3"):
        hook.build_web(checkout)
    assert "src/text: broken" in capsys.readouterr().err
    assert not (checkout / "httpserver" / "static").exists()


def test_the_page_can_be_left_out(hook: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_SKIP_WEB", "1")
    assert not hook.build_web(checkout)
    assert not (checkout / "httpserver" / "static").exists()


def test_the_lock_files_pin_what_an_isolated_build_would_take(repository: Path) -> None:
    required = tomllib.loads((repository / "server" / "pyproject.toml").read_text())["build-system"]["requires"]
    for lock in ("requirements.lock", "requirements-dev.lock"):
        locked = {line.split(" ")[0] for line in (repository / lock).read_text().splitlines()}
        assert set(required) <= locked, lock
