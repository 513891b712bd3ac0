"""`headway join`: another machine of the cluster.

The machine first only asks whether it could join. All that can be refused is refused then. Its private key is made
here and never leaves. It is kept beside a note, for a run that was killed or lost the answer. The next run asks with
the same key, and the cluster gives the same certificate.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from cryptography.hazmat.primitives.asymmetric import ec

from ..config import HeadwayConfig, load, split_address
from ..config.checks import derived
from ..doctor.shared_mount import other_cluster
from ..errors import ConfigInvalid, NotAllowed
from ..plugins import own_version
from ..trust.authority import check_issued, key_pem, make_csr, make_key, named_authority, read_key
from ..trust.files import TrustFiles, write_private
from ..trust.identity import MANAGERS, Identity
from ..trust.joining import JoinRequest, JoinToken
from . import asking, config_text, unfinished, units
from .asking import Answered
from .init import write_config

_KEY = ".join-key"


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """What the command line asked for. ``door``: HOST or HOST:PORT by which others reach this machine; empty: found.

    ``renew``: the machine was in the cluster under this name before; its files but certificate and key stay.
    """

    address: str
    token: JoinToken
    name: str
    state: Path
    config: Path
    door: str
    unit_dir: Path | None
    renew: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JoinOutcome:
    """What came of it. ``clock_off_s``: this machine's clock is so far ahead of the cluster's.

    ``kept``: only the certificate is new.
    """

    identity: Identity
    config: HeadwayConfig
    units: tuple[units.SystemdUnit, ...]
    clock_off_s: float
    cluster_version: str
    kept: bool = False


def join(
    options: JoinOptions,
    *,
    now: Callable[[], float] = time.time,
    transport: httpx.BaseTransport | None = None,
) -> JoinOutcome:
    """Brings this machine into the cluster. Safe to call again with the same token after a kill.

    Raises:
        HeadwayError: it can't; one sentence says why and what to do. Up to the certificate nothing has changed.
    """
    state, new = options.state, not options.state.exists()
    note = unfinished.read(state) if not new else None
    key = _key_of(state, note, options.token)
    wish = JoinRequest(
        cluster=options.token.cluster,
        token_id=options.token.id,
        csr=make_csr(key).decode(),
        nonce=secrets.token_hex(16),
        at=now(),
        version=own_version(),
        name=options.name,
        host=derived(HeadwayConfig())[0].worker.node_id,
        renew=options.renew,
        look=True,
    )
    look = asking.ask(options.address, options.token, wish, transport=transport)
    off_s = (wish.at + now()) / 2 - look.at
    try:
        named_authority(look.ca, options.token.fingerprint)
    except ValueError as error:
        raise NotAllowed(f"What the cluster sent can't be believed: {error}.") from error
    door = _door(options, look)
    files = TrustFiles(state / "trust")
    planned = _planned_units(options, look)
    unit_files = () if options.unit_dir is None else tuple(options.unit_dir / one.name for one in planned)
    text = _text(options, look, door)
    ours = frozenset(note.made) if note is not None and note.what == "join" else frozenset()
    # After a lost disk nothing is there to keep: then all is made, as for a new machine.
    keeps = options.renew and options.config.exists() and str(options.config) not in ours
    _refuse(options, look, files, unit_files, ours, keeps=keeps)
    unfinished.make_private(state)
    with unfinished.only_one(state):
        _check_text(state, options.config, text)
        made = () if keeps else (str(options.config), str(files.folder / look.role), *map(str, unit_files))
        write_private(state / _KEY, key_pem(key))
        unfinished.write(state, unfinished.Note("join", look.shared["cluster.name"], made, token_id=options.token.id))
        try:
            again = asking.fresh(wish, nonce=secrets.token_hex(16), at=now(), look=False)
            answer = asking.ask(options.address, options.token, again, transport=transport)
            _check_answer(answer, look, options.token, key)
        except asking.JoinRefused:
            # The token was used, or ended, in between: nothing was made yet.
            _forget(state)
            raise
        _put_in_place(answer, files, key)
        if not keeps:
            write_config(options.config, text)
            if options.unit_dir is not None:
                units.install(options.unit_dir, planned)
        loaded = load(options.config, env={})
        _forget(state)
    return JoinOutcome(
        Identity(options.token.cluster, answer.role, answer.name),
        loaded.config,
        tuple(planned),
        off_s,
        answer.version,
        kept=keeps,
    )


def _key_of(state: Path, note: unfinished.Note | None, token: JoinToken) -> ec.EllipticCurvePrivateKey:
    """The key of a run that did not end, if it had this token; else a new one."""
    if note is None:
        return make_key()
    if note.what != "join":
        raise ConfigInvalid(f"A `headway init` on {state} was not finished: run it again, or remove {state}.")
    try:
        if note.token_id == token.id:
            return read_key((state / _KEY).read_bytes())
    except (OSError, ValueError):
        pass
    return make_key()


def _forget(state: Path) -> None:
    # The note first: a key without it is nobody's, and the next run makes another.
    unfinished.remove(state)
    (state / _KEY).unlink(missing_ok=True)


def _door(options: JoinOptions, look: Answered) -> str:
    """HOST:PORT where this machine's service will listen."""
    if of_cluster := config_text.door_of(look.role, look.shared):
        return of_cluster
    port = config_text.PORTS[look.role]
    if not options.door:
        return config_text.address(_own_address(options.address), port)
    try:
        host, port = split_address(options.door)
        return config_text.address(host, port)
    except ValueError:
        return config_text.address(options.door.strip("[]"), port)


def _own_address(address: str) -> str:
    """The address of this machine from which the cluster is reached. Sends nothing."""
    host, port = urlsplit(address).hostname or "", urlsplit(address).port or 80
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigInvalid(
            f"There is no way to {host} ({error.strerror}): say this machine's address with --address."
        ) from error


def _text(options: JoinOptions, look: Answered, door: str) -> str:
    settings = config_text.joined_machine(
        role=look.role, name=look.name, where=door, state=str(options.state), shared=look.shared
    )
    return config_text.text_of("join", {**settings, **options.settings})


def _planned_units(options: JoinOptions, look: Answered) -> list[units.SystemdUnit]:
    if options.unit_dir is None:
        return []
    mount = str(options.settings.get("cluster.mount", look.shared["cluster.mount"]))
    return units.units([look.role], config=options.config, mount=mount)


def _refuse(
    options: JoinOptions,
    look: Answered,
    files: TrustFiles,
    unit_files: tuple[Path, ...],
    ours: frozenset[str],
    *,
    keeps: bool,
) -> None:
    """Raises ConfigInvalid or NotAllowed: joining would overwrite something, or be of no use."""
    if keeps:
        # Its key may be lost: the folder shows that the service stood here.
        if not files.key(look.role).parent.is_dir():
            raise ConfigInvalid(f"There is no {look.role} on {options.state} that could be renewed: leave out --renew.")
    else:
        there = [
            str(path)
            for path in (options.config, files.folder / look.role, *unit_files)
            if str(path) not in ours and path.exists()
        ]
        if there:
            raise ConfigInvalid(
                f"This machine has {', '.join(there)} already, and nothing of it was changed. For a second service say "
                "--config FILE; for a certificate that expired say --renew."
            )
    if files.ca.exists() and not ours and not _shared_authority(files.ca.read_bytes(), look.ca):
        raise NotAllowed(f"{files.ca} is of another cluster's authority: choose another folder with --state.")
    mount = str(options.settings.get("cluster.mount", look.shared["cluster.mount"]))
    if look.role not in MANAGERS and (other := other_cluster(mount, options.token.cluster)):
        raise NotAllowed(
            f"{mount} on this machine belongs to the cluster {other[:64]!r}, and the token is of "
            f"{options.token.cluster!r}: mount this cluster's share there, or say --set cluster.mount=PATH."
        )


def _shared_authority(mine: bytes, theirs: bytes) -> bool:
    return bool(_blocks(mine) & _blocks(theirs))


def _blocks(pem: bytes) -> set[bytes]:
    return {b"".join(part.split()) for part in pem.split(b"-----END CERTIFICATE-----") if part.strip()}


def _check_text(state: Path, config: Path, text: str) -> None:
    draft = state / ".headway.toml.new"
    write_private(draft, text.encode())
    try:
        load(draft, env={})
    except ConfigInvalid as error:
        raise ConfigInvalid(str(error).replace(str(draft), str(config))) from error
    finally:
        draft.unlink()


def _check_answer(answer: Answered, look: Answered, token: JoinToken, key: ec.EllipticCurvePrivateKey) -> None:
    try:
        found = check_issued(answer.certificate, answer.ca, key, token.fingerprint)
    except ValueError as error:
        raise NotAllowed(f"What the cluster sent can't be believed: {error}.") from error
    if found.identity != Identity(token.cluster, look.role, look.name):
        raise NotAllowed(f"The cluster sent a certificate for {found.identity}, and not for {look.role} {look.name}.")


def _put_in_place(answer: Answered, files: TrustFiles, key: ec.EllipticCurvePrivateKey) -> None:
    files.folder.mkdir(mode=0o700, exist_ok=True)
    if not files.revoked.exists():
        write_private(files.revoked, b"[]\n", mode=0o644)
    if not files.ca.exists() or not _shared_authority(files.ca.read_bytes(), answer.ca):
        write_private(files.ca, answer.ca, mode=0o644)
    write_private(files.key(answer.role), key_pem(key))
    write_private(files.certificate(answer.role), answer.certificate, mode=0o644)
