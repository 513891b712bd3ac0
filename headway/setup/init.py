"""`headway init`: the first machine of a cluster.

All that can be refused is refused before the first change. Then a note says what is about to be made, each thing
appears whole, and the note goes away last. A run that was killed leaves the note, and the next run makes all of it
anew. Services are started only afterwards, so nobody can have joined meanwhile.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config import LoadedConfig, load
from ..config.values import is_loopback
from ..doctor.shared_mount import other_cluster
from ..errors import ConfigInvalid
from ..mount import FOLDERS, MARKER, prepare_local, read_marker
from ..trust.authority import Authority, authority_paths, key_pem, make_authority, make_csr, make_key
from ..trust.files import TrustFiles, sync_folder, write_private
from ..trust.identity import MANAGERS, Identity, Role
from . import config_text, unfinished, units

_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_BUILT = ".trust-new"


@dataclass(frozen=True, slots=True)
class InitOptions:
    """What the command line asked for. ``elsewhere``: managers on other machines, with HOST:PORT.

    ``unit_dir`` None: no units. ``settings``: keys of headway.toml besides.
    """

    cluster: str
    address: str
    state: Path
    config: Path
    mount: Path | None
    worker: bool
    node: str
    unit_dir: Path | None
    elsewhere: Mapping[Role, str] = field(default_factory=dict)
    behind_proxy: str = ""
    tls: tuple[str, str] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InitPlan:
    """What will be on this machine. ``own_page_certificate``: the authority signs one for the page."""

    options: InitOptions
    roles: tuple[Role, ...]
    mount: Path
    text: str
    units: tuple[units.SystemdUnit, ...]
    own_page_certificate: bool

    @property
    def trust(self) -> TrustFiles:
        return TrustFiles(self.options.state / "trust")

    @property
    def unit_files(self) -> tuple[Path, ...]:
        folder = self.options.unit_dir
        return tuple(folder / one.name for one in self.units) if folder is not None else ()

    def told(self) -> list[str]:
        """What would be made, a line each."""
        roles = ", ".join(self.roles)
        return [
            f"{self.trust.authority}: the authority of the cluster {self.options.cluster}, for root alone",
            f"{self.trust.folder}: certificates for {roles}",
            *([f"{self.trust.folder / 'page'}: a certificate for the page"] if self.own_page_certificate else []),
            f"{self.mount}: the shared mount, with its marker {MARKER}",
            *(str(path) for path in self.unit_files),
            f"{self.options.config}:",
            *(f"    {line}" for line in self.text.splitlines()),
        ]


def plan(options: InitOptions) -> InitPlan:
    """Works out everything and changes nothing.

    Raises:
        ConfigInvalid: something that was asked for can't be.
    """
    if not _CLUSTER.fullmatch(options.cluster):
        raise ConfigInvalid(
            f"{options.cluster[:80]!r} can't name a cluster: use up to 63 letters, digits, points, `_` and `-`."
        )
    local = is_loopback(options.address)
    if options.mount is None and not local:
        raise ConfigInvalid(
            "Say with --mount where the shared folder is that all machines see, such as NFS or GlusterFS "
            "(docs/operations/several-machines.md)."
        )
    if stays := config_text.STAY & set(options.elsewhere):
        raise ConfigInvalid(f"{min(stays)} runs on this machine, since others join through it.")
    own_page = not local and options.tls is None and not options.behind_proxy
    page = options.state / "trust" / "page"
    tls = (str(page / "cert.pem"), str(page / "key.pem")) if own_page else options.tls
    roles = tuple(sorted((MANAGERS - set(options.elsewhere)) | ({Role.WORKER} if options.worker else set())))
    mount = options.mount or options.state / "mount"
    settings = config_text.first_machine(
        cluster=options.cluster,
        host=options.address,
        state=str(options.state),
        mount=str(mount),
        roles=roles,
        elsewhere=options.elsewhere,
        node=options.node,
        behind_proxy=options.behind_proxy,
        tls=tls,
    )
    text = config_text.text_of("init", {**settings, **options.settings})
    found = units.units(roles, config=options.config, mount=str(mount)) if options.unit_dir is not None else []
    return InitPlan(options, roles, mount, text, tuple(found), own_page)


def refuse_what_is_there(planned: InitPlan, note: unfinished.Note | None) -> None:
    """A cluster is set up once. ``note``: what a killed run may have left, which counts as nothing.

    Raises:
        ConfigInvalid: something is there already; the sentence says what.
    """
    ours = set(note.made) if note is not None else set()
    there = [
        str(path)
        for path in (planned.options.config, planned.trust.folder, *planned.unit_files)
        if str(path) not in ours and path.exists()
    ]
    if there:
        raise ConfigInvalid(
            f"Headway was set up here already: there is {', '.join(there)}. Nothing was changed. `headway join` brings "
            "other machines in; to begin anew, remove these by hand."
        )
    if other := other_cluster(planned.mount, planned.options.cluster):
        if note is not None and note.mount == str(planned.mount) and note.cluster == other:
            return
        raise ConfigInvalid(
            f"{planned.mount} belongs to the cluster {other[:64]!r}, and this one is to be "
            f"{planned.options.cluster!r}: choose another folder with --mount, or that name with --cluster."
        )
    used = read_marker(planned.mount) is None and any((planned.mount / name).exists() for name in FOLDERS)
    if used and (note is None or note.mount != str(planned.mount)):
        raise ConfigInvalid(
            f"{planned.mount} was Headway's shared folder before, but its file {MARKER} is missing: is the share "
            "mounted?"
        )


def carry_out(planned: InitPlan) -> LoadedConfig:
    """Makes everything; returns the configuration as services will see it. Safe to call again after a kill.

    Raises:
        ConfigInvalid: something is there already, or can't be; nothing is left then that was not there before.
    """
    state = planned.options.state
    new = not state.exists()
    refuse_what_is_there(planned, unfinished.read(state) if not new else None)
    unfinished.make_private(state)
    with unfinished.only_one(state):
        before = unfinished.read(state)
        refuse_what_is_there(planned, before)
        try:
            _build_trust(planned, state / _BUILT)
            _check(planned, state / _BUILT)
        except BaseException:
            shutil.rmtree(state / _BUILT, ignore_errors=True)
            if new and before is None:
                shutil.rmtree(state, ignore_errors=True)
            raise
        made = (planned.options.config, planned.trust.folder, *planned.unit_files)
        if before is not None:
            _take_away(before)
        # Where a marker was before, nobody may take it away.
        fresh_mount = str(planned.mount) if read_marker(planned.mount) is None else ""
        note = unfinished.Note("init", planned.options.cluster, tuple(str(path) for path in made), mount=fresh_mount)
        unfinished.write(state, note)
        try:
            loaded = _put_in_place(planned)
        except ConfigInvalid:
            _take_away(note)
            unfinished.remove(state)
            raise
        unfinished.remove(state)
    return loaded


def _put_in_place(planned: InitPlan) -> LoadedConfig:
    state = planned.options.state
    (state / _BUILT).rename(planned.trust.folder)
    sync_folder(state)
    prepare_local(planned.mount, planned.options.cluster)
    if planned.options.unit_dir is not None:
        units.install(planned.options.unit_dir, planned.units)
    write_config(planned.options.config, planned.text)
    return load(planned.options.config, env={})


def _build_trust(planned: InitPlan, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    files = TrustFiles(folder)
    key, certificate = make_authority(planned.options.cluster)
    authority = Authority(key, certificate)
    key_file, certificate_file = authority_paths(files)
    write_private(key_file, key)
    write_private(certificate_file, certificate, mode=0o644)
    write_private(files.ca, certificate, mode=0o644)
    write_private(files.revoked, b"[]\n", mode=0o644)
    for role in planned.roles:
        name = planned.options.node if role is Role.WORKER else "main"
        own = make_key()
        write_private(files.key(role), key_pem(own))
        signed = authority.sign(make_csr(own), Identity(planned.options.cluster, role, name))
        write_private(files.certificate(role), signed, mode=0o644)
    if planned.own_page_certificate:
        own = make_key()
        write_private(folder / "page" / "key.pem", key_pem(own))
        signed = authority.sign_page(own.public_key(), planned.options.address)
        write_private(folder / "page" / "cert.pem", signed, mode=0o644)


def _check(planned: InitPlan, built: Path) -> None:
    """The whole file, before it stands under its name; it looks at the files that will lie in ``trust``."""
    draft = built / "headway.toml"
    write_private(draft, planned.text.replace(str(planned.trust.folder), str(built)).encode())
    try:
        load(draft, env={})
    except ConfigInvalid as error:
        raise ConfigInvalid(str(error).replace(str(draft), str(planned.options.config))) from error
    finally:
        draft.unlink()


def _take_away(before: unfinished.Note) -> None:
    """What a killed run made."""
    for text in before.made:
        path = Path(text)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
    if before.mount and read_marker(before.mount) in (None, before.cluster):
        (Path(before.mount) / MARKER).unlink(missing_ok=True)
        for name in FOLDERS:
            with contextlib.suppress(OSError):  # only those that are empty, as that run made them
                (Path(before.mount) / name).rmdir()


def write_config(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, text.encode(), mode=0o644)
    except OSError as error:
        raise ConfigInvalid(
            f"{path} can't be written ({error.strerror}): run this as root, or choose another file with --config."
        ) from error
