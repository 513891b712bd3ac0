"""nginx and Caddy as deploy/proxies shows them, with this test's names, ports and certificate put in."""

from __future__ import annotations

import datetime
import ipaddress
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from .waiting import soon

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "proxies"
_DAY = datetime.timedelta(days=1)


def certificate_for_localhost(folder: Path) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "fullchain.pem", folder / "privkey.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_file, key_file


def _changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text, f"the example has no {old!r} any more"
        text = text.replace(old, new)
    return text


def _nginx(folder: Path, page: int, port: int, plain: int, files: tuple[Path, Path]) -> list[str]:
    site = _changed(
        (EXAMPLES / "nginx.conf").read_text(),
        ("127.0.0.1:8080;", f"127.0.0.1:{page};"),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("gpus.example.org;", "localhost;"),
        ("/etc/ssl/headway/fullchain.pem", str(files[0])),
        ("/etc/ssl/headway/privkey.pem", str(files[1])),
    )
    (folder / "site.conf").write_text(site)
    spools = "".join(
        f"{kind}_temp_path spool-{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off;\nworker_processes 1;\nuser root;\npid {folder}/pid;\nerror_log stderr;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{spools}include {folder}/site.conf;\n}}\n"
    )
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]


def _caddy(folder: Path, page: int, port: int, plain: int, files: tuple[Path, Path]) -> list[str]:
    site = _changed(
        (EXAMPLES / "Caddyfile").read_text(),
        ("127.0.0.1:8080 {", f"127.0.0.1:{page} {{"),
        ("gpus.example.org {", f"https://localhost:{port} {{\n\ttls {files[0]} {files[1]}"),
    )
    own = (
        "admin off",
        f"http_port {plain}",
        f"https_port {port}",
        "default_bind 127.0.0.1",
        f"storage file_system {folder}/store",
    )
    (folder / "Caddyfile").write_text("{\n\t" + "\n\t".join(own) + "\n}\n" + site)
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


KINDS = {"nginx": _nginx, "caddy": _caddy}


@contextmanager
def a_proxy(kind: str, folder: Path, *, page: int, port: int, plain: int) -> Iterator[Path]:
    """A running one at https://localhost:PORT; gives the file of the certificate that clients have to trust."""
    folder.mkdir(parents=True, exist_ok=True)
    files = certificate_for_localhost(folder)
    command = KINDS[kind](folder, page, port, plain, files)
    program = shutil.which(command[0], path="/usr/sbin:/usr/bin:/sbin:/bin")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        )
    try:
        soon(lambda: process.poll() is not None or _listens(port), within_s=30, what=f"{kind} listens")
        assert process.poll() is None, (folder / "log").read_text()
        yield files[0]
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
