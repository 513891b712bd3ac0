"""A real registry (Debian's docker-registry) of a test's own: a folder, a port, users with passwords.

with a_registry(folder) as registry:
    pushed = registry.push("team/tool", "1", tiny_image(...))     # over its HTTP API: no engine is needed
    registry.name("team/tool:1")                                  # 127.0.0.1:PORT/team/tool:1
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from .archives import TinyImage, digest_of, packed
from .ports import free_port
from .waiting import soon

PROGRAM = Path("/usr/bin/docker-registry")
USER, PASSWORD = "ann-at-registry", "correct horse battery"
# PASSWORD by bcrypt, the only hash that the program reads.
_HTPASSWD = f"{USER}:$2b$04$abcdefghijklmnopqrstuuqREtd3VJD2QVZbuFskFSLk6eRIrQoOS\n"
# Of another password.
_OTHER = "$2b$04$abcdefghijklmnopqrstuuW839tY81OgYwy4gFNdslinRlf6MvQ8m"

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True, slots=True)
class Pushed:
    """What the registry holds now."""

    digest: str  # of the manifest
    size: int


class Registry:
    """A registry on a port of its own; ``private``: it knows one user, and nobody else gets in."""

    def __init__(self, folder: Path, *, private: bool = False) -> None:
        self.folder = folder
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.auth = (USER, PASSWORD) if private else None
        self._servers: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        config: dict[str, Any] = {
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
            "http": {"addr": self.host},
        }
        if private:
            (folder / "htpasswd").write_text(_HTPASSWD)
            config["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}}
        (folder / "config.yml").write_text(json.dumps(config))  # JSON is YAML

    def name(self, image: str) -> str:
        """As a job names it."""
        return f"{self.host}/{image}"

    def start(self) -> Registry:
        """Start it and wait until it answers."""
        self._serve([])
        soon(self._answers, within_s=20, what="the registry answers")
        return self

    def serve_also_beside(self, pid: int) -> None:
        """The same registry at the same address of the network that another process is in, as the tests' engine is."""
        enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]
        self._serve(enter)
        probe = f"import socket; socket.create_connection(('127.0.0.1', {self.port}))"
        look = [*enter, sys.executable, "-c", probe]
        soon(
            lambda: subprocess.run(look, stderr=subprocess.DEVNULL, check=False).returncode == 0,
            within_s=20,
            every_s=0.1,
            what="the registry answers there",
        )

    def stop(self) -> None:
        """End it. Safe to call twice."""
        while self._servers:
            server = self._servers.pop()
            server.send_signal(signal.SIGKILL)
            server.wait()

    def change_password(self) -> None:
        """Nobody's password is what it was."""
        (self.folder / "htpasswd").write_text(f"{USER}:{_OTHER}\n")
        past = time.time() + 10  # it reads the file again when its time differs
        os.utime(self.folder / "htpasswd", (past, past))

    def _serve(self, enter: Sequence[str]) -> None:
        with (self.folder / "registry.log").open("ab") as log:
            self._servers.append(
                subprocess.Popen(
                    [*enter, str(PROGRAM), "serve", str(self.folder / "config.yml")],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, "OTEL_TRACES_EXPORTER": "none"},
                )
            )

    def _answers(self) -> bool:
        assert self._servers[0].poll() is None, (self.folder / "registry.log").read_text()[-500:]
        try:
            return httpx.get(f"http://{self.host}/v2/", trust_env=False).status_code in (200, 401)
        except httpx.HTTPError:
            return False

    # -- pushing --------------------------------------------------------------------------------

    def push(self, repository: str, tag: str, image: TinyImage) -> Pushed:
        """An image under a tag."""
        with self._client() as client:
            layers = [packed(content, "gzip") for content in image.layers]
            for blob in (image.config, *layers):
                self._blob(client, repository, blob)
            manifest = {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": _described("application/vnd.docker.container.image.v1+json", image.config),
                "layers": [_described("application/vnd.docker.image.rootfs.diff.tar.gzip", blob) for blob in layers],
            }
            return self._manifest(client, repository, tag, json.dumps(manifest).encode(), MANIFEST)

    def push_index(self, repository: str, tag: str, images: Sequence[TinyImage]) -> Pushed:
        """One tag for several platforms, with an attestation among them as build tools add it."""
        entries: list[dict[str, Any]] = []
        for number, image in enumerate(images):
            part = self.push(repository, f"part-{number}", image)
            entries.append(
                {"mediaType": MANIFEST, "digest": part.digest, "size": part.size, "platform": image.platform}
            )
        nobody = {"architecture": "unknown", "os": "unknown"}
        entries.append({**entries[0], "platform": nobody})
        document = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
        with self._client() as client:
            return self._manifest(client, repository, tag, document, INDEX)

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://{self.host}/v2/", auth=self.auth, trust_env=False, timeout=20)

    def _blob(self, client: httpx.Client, repository: str, blob: bytes) -> None:
        begun = client.post(f"{repository}/blobs/uploads/")
        begun.raise_for_status()
        url = httpx.URL(begun.headers["location"]).copy_add_param("digest", digest_of(blob))
        client.put(url, content=blob).raise_for_status()

    def _manifest(self, client: httpx.Client, repository: str, tag: str, document: bytes, kind: str) -> Pushed:
        client.put(f"{repository}/manifests/{tag}", content=document, headers={"Content-Type": kind}).raise_for_status()
        return Pushed(digest_of(document), len(document))


@contextmanager
def a_registry(folder: Path, *, private: bool = False) -> Iterator[Registry]:
    """A running registry."""
    registry = Registry(folder, private=private)
    try:
        yield registry.start()
    finally:
        registry.stop()


def _described(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest_of(blob), "size": len(blob)}
