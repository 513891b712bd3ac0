"""images: the image market from the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import click

from ...client import Client
from ...client.market import MarketClient
from ...errors import Conflict, InvalidInput
from ...units import counted
from ..common import ago, client, output_option, print_json, safe, size, table, whole_file
from ..transfer import audience, audience_in_full, print_audience, print_waits, progress, share_changes, share_options

# Base images that are built with Docker from other people's, and how.
_CONNECTED = {"cuda": "--target python -t base/cuda:12.6", "torch": "--target torch -t base/torch:2.7"}
# Roughly: the server knows the whole rule, and whose names are whose.
_NAME = re.compile(r"[a-z0-9._/-]+(?::[A-Za-z0-9_.-]+)?")


@click.group()
def images() -> None:
    """Images that any machine of the cluster can run."""


@images.command("ls")
@click.argument("query", default="")
@click.option("--owner", default="", help="Only this account's.")
@output_option
def ls(query: str, owner: str, output: str) -> None:
    """List images; QUERY is part of a name, a description or a framework."""
    with client() as http:
        found = list(MarketClient(http).images(query, owner))
    if output == "json":
        print_json(found)
        return
    rows = [
        [
            safe(f"{image['full_name']}:{tag['tag']}" if tag["tag"] else f"{image['full_name']}@{tag['digest'][:19]}"),
            size(tag["size_bytes"]),
            tag["architecture"],
            safe(_contents(tag)) or "-",
            audience(image),
            ago(tag["pushed_at"]),
        ]
        for image in found
        for tag in image["tags"]
    ]
    if rows:
        table(["image", "size", "arch", "holds", "for", "pushed"], rows)


def _contents(tag: dict[str, Any]) -> str:
    cuda = {"cuda": tag["cuda_version"]} if tag["cuda_version"] else {}
    return ", ".join(f"{name} {version}" for name, version in {**cuda, **tag["frameworks"]}.items())


@images.command("show")
@click.argument("ref")
@output_option
def show(ref: str, output: str) -> None:
    """Show what is inside OWNER/NAME[:TAG], and who uses it."""
    with client() as http:
        found = MarketClient(http).image(ref)
    if output == "json":
        print_json(found)
        return
    click.echo(f"{safe(found['full_name'])}, {safe(audience_in_full(found))}")
    if found["description"]:
        click.echo(safe(found["description"].splitlines()[0]))
    if found["last_good_run"]:
        click.echo(f"last good run: job {found['last_good_run']['job_id']}, {ago(found['last_good_run']['at'])}")
    for tag in found["tags"]:
        _show_tag(tag)


def _show_tag(tag: dict[str, Any]) -> None:
    click.echo(f"\n{safe(tag['tag'] or '(no tag)')}  {tag['digest']}")
    shell = "sh and bash" if tag["has_bash"] else "sh" if tag["has_shell"] else "none: give the command as a list"
    facts = {
        "pushed": f"{ago(tag['pushed_at'])} by {tag['pushed_by']}",
        "for": f"{tag['os']}/{tag['architecture']}",
        "size": f"{size(tag['size_bytes'])} in {counted(len(tag['layers']), 'layer')}",
        "entry point": json.dumps(tag["entrypoint"], ensure_ascii=False) if tag["entrypoint"] else "",
        "command": json.dumps(tag["command"], ensure_ascii=False) if tag["command"] else "",
        "user": tag["user"] or "root",
        "working dir": tag["working_dir"],
        "shell": shell,
        "python": tag["python_version"],
        "holds": _contents(tag),
        "needs": tag["require_cuda"],
        "used by": ", ".join(f"{use['account']} ({counted(use['jobs'], 'job')})" for use in tag["used_by"]),
        "needed now": ", ".join(tag["live_jobs"]),
    }
    for name, value in facts.items():
        if value:
            click.echo(f"  {name:12} {safe(value)}")


@images.command("push")
@click.argument("name")
@click.option(
    "--from",
    "source",
    default="docker",
    show_default=True,
    metavar="docker|FILE",
    help="`docker` takes the image of that name from this machine's engine; else an archive made by `docker save` or "
    "in OCI layout, plain or compressed.",
)
@click.option("--image", "local", help="With --from docker: the local image's name, where it differs from NAME.")
@click.option("--choose", default="", help="The image to take from an archive that holds several.")
@click.option("--description", help="Markdown.")
@click.option("--public", is_flag=True, help="For everybody who signs in; private unless given.")
@output_option
def push(
    name: str, source: str, local: str | None, choose: str, description: str | None, public: bool, output: str
) -> None:
    """Upload an image as NAME[:TAG] of yours. If it breaks off, the same command goes on where it was."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} can't name an image of the market: write NAME or NAME:TAG, in small letters and digits with "
            "single `.`, `_` or `-` between them."
        )
    metadata = {"name": name}
    if choose:
        metadata["choose"] = choose
    if description is not None:
        metadata["description"] = description
    if public:
        metadata["public"] = "true"
    with client() as http, _archive(source, local or name) as (place, whose):
        status = _upload(http, place, {**metadata, "filename": whose})
    if output == "json":
        print_json(status)
    else:
        click.echo(f"{safe(status['result']['image'])}  {status['result']['digest']}")


def _upload(http: Client, place: Path, metadata: dict[str, str]) -> dict[str, Any]:
    from ...client.uploads import upload

    with progress(f"push {metadata['name']}", place.stat().st_size) as step:
        status = upload(http, "images", place, metadata, step)
    if status["state"] == "choose":
        choices = ", ".join(status["choices"])
        found = f"no image `{metadata['choose']}`" if metadata.get("choose") else "several images"
        raise InvalidInput(safe(f"The archive holds {found}; choose one with --choose: {choices}."))
    if status["state"] == "failed":
        raise Conflict(status["problem"]["detail"])
    return status


@contextmanager
def _archive(source: str, image: str) -> Iterator[tuple[Path, str]]:
    """The archive's file and what to call it."""
    if source != "docker":
        place = Path(source)
        if not place.is_file():
            raise click.BadParameter(f"there is no file {source} (and it isn't the word docker)", param_hint="--from")
        yield place, place.name
        return
    docker = _docker()
    # Kept until it is up: an upload that was cut off goes on from it, and can't from a pipe.
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway"
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [docker, "image", "inspect", "--format", "{{.Id}}", image], capture_output=True, text=True, check=False
    )
    if "no such image" in done.stderr.lower():
        raise click.ClickException(
            f"This machine's Docker Engine has no image {image}: build it or load it first, name another with --image, "
            "or push a file with --from FILE."
        )
    if done.returncode != 0:
        raise click.ClickException(f"This machine's Docker Engine gives no image {image}: {_last_line(done.stderr)}")
    place = folder / f"{done.stdout.strip().replace(':', '-')}.tar"
    if not place.exists():
        with whole_file(place) as file:
            _run([docker, "save", image], stdout=file)
    yield place, f"{image}.tar"
    place.unlink(missing_ok=True)


@images.command("pull")
@click.argument("ref")
@click.option("--file", "place", type=click.Path(path_type=Path), help="Write an archive instead (- for stdout).")
def pull(ref: str, place: Path | None) -> None:
    """Fetch OWNER/NAME[:TAG] into this machine's Docker Engine, or into a file."""
    with client() as http:
        market = MarketClient(http)
        if place == Path("-"):
            market.download_image(ref, sys.stdout.buffer)
        elif place is not None:
            with whole_file(place) as file, progress(f"pull {ref}", None) as step:
                market.download_image(ref, file, step)
        else:
            _into_engine(market, ref)


def _into_engine(market: MarketClient, ref: str) -> None:
    docker = _docker()
    # By a file and not a pipe: what broke off half way must not reach the engine.
    with tempfile.NamedTemporaryFile(prefix="headway-pull-", dir=os.environ.get("TMPDIR", "/var/tmp")) as file:
        with progress(f"pull {ref}", None) as step:
            market.download_image(ref, cast(BinaryIO, file), step)
        file.seek(0)
        _run([docker, "load", "--quiet"], stdin=cast(BinaryIO, file), stdout=sys.stderr.buffer)


@images.command("share")
@click.argument("ref")
@share_options
@output_option
def share(ref: str, output: str, **options: Any) -> None:
    """Say who may use an image of yours."""
    with client() as http:
        market = MarketClient(http)
        found = market.change_image(ref, share_changes(market.image(ref), options))
    print_audience(found, found["full_name"], output)


@images.command("describe")
@click.argument("ref")
@click.argument("text", required=False)
@click.option("--file", type=click.File("r", encoding="utf-8"), help="Take the text from a file.")
@output_option
def describe(ref: str, text: str | None, file: Any, output: str) -> None:
    """Set the description of an image of yours (Markdown)."""
    if (text is None) == (file is None):
        raise click.UsageError("give the text, or --file")
    with client() as http:
        found = MarketClient(http).change_image(ref, {"description": text if text is not None else file.read()})
    if output == "json":
        print_json(found)


@images.command("tag")
@click.argument("ref")
@click.argument("tag")
@output_option
def tag_image(ref: str, tag: str, output: str) -> None:
    """Give the content of OWNER/NAME[:TAG] one more tag."""
    with client() as http:
        found = MarketClient(http).tag_image(ref, tag)
    if output == "json":
        print_json(found)


@images.command("rm")
@click.argument("ref")
@click.option(
    "--wait", is_flag=True, help="If jobs still use it: off the lists now, its content deleted when they end."
)
@output_option
def rm(ref: str, wait: bool, output: str) -> None:
    """Remove a tag (OWNER/NAME:TAG) or a whole image (OWNER/NAME) of yours."""
    with client() as http:
        answer = MarketClient(http).delete_image(ref, wait=wait)
    print_waits(answer, "its content goes", output)


@images.command("build-base")
@click.argument("name", default="python")
@click.option("--push", "to_market", is_flag=True, help="Upload it to the market too, as base/NAME:1 (admins).")
def build_base(name: str, to_market: bool) -> None:
    """Build a base image from Debian and Python packages, without a registry, into this machine's engine."""
    script = Path(__file__).resolve().parents[3] / "images" / "build-base"
    if not script.is_file():
        raise click.ClickException(
            "Base images are built from Headway's sources, and this is an installed package without them: run it in a "
            "clone, or push an image of your own with `headway images push`."
        )
    if name in _CONNECTED and not (script.parent / name / "packages").is_file():
        tag = _CONNECTED[name].rpartition(" ")[2]
        raise click.ClickException(
            f"base/{name} starts from an image of NVIDIA: where Docker Hub can be reached, run `docker build "
            f"{_CONNECTED[name]} images/cuda` in a clone of Headway, then `headway images push {tag}` (docs/images.md)."
        )
    done = subprocess.run([str(script), name], check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    if to_market:
        with client() as http, _archive("docker", f"base/{name}:1") as (place, whose):
            status = _upload(http, place, {"name": f"base/{name}:1", "public": "true", "filename": whose})
        click.echo(f"{status['result']['image']}  {status['result']['digest']}")


def _docker() -> str:
    found = shutil.which("docker")
    if found is None:
        raise click.ClickException("There is no docker command on this machine: name an archive with --from or --file.")
    return found


def _run(words: list[str], **streams: Any) -> None:
    done = subprocess.run(words, stderr=subprocess.PIPE, check=False, **streams)
    if done.returncode != 0:
        said = _last_line(done.stderr.decode("utf-8", "replace"))
        raise click.ClickException(f"`{' '.join(words[:2])}` failed: {said}")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it says nothing"
