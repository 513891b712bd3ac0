"""Which image a name means: names as Docker reads them, what engines have, what registries say, what is decided."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from headway.errors import InvalidInput
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import resource_manager_pb2 as rm
from httpserver.auth.model import Account
from httpserver.datasets.ports import PinnedVersion
from httpserver.jobs import job_file
from httpserver.needs.engine_images import EngineImages
from httpserver.needs.job_names import JobNames, UnknownName
from httpserver.needs.pinning import ImagePin, Pinning, Pins
from httpserver.registries import manifests
from httpserver.registries.failure import FailureKind, RegistryFailure
from httpserver.registries.manifests import ImageFacts, UnreadableManifest
from httpserver.registries.names import OWN_REGISTRY, ImageName, parse, registry_host
from httpserver.registries.service import ResolvedRegistryImage
from httpserver.text.near_names import TaggedImage
from httpserver.uses.service import Ref
from worker.runtime.docker_images import MARK

A, B, C = (f"sha256:{digit * 64}" for digit in "abc")


@pytest.mark.parametrize(
    ("name", "want", "short"),
    [
        ("python", "docker.io/library/python:latest", "python:latest"),
        ("python:3", "docker.io/library/python:3", "python:3"),
        ("team/x", "docker.io/team/x:latest", "team/x:latest"),
        ("docker.io/python:3", "docker.io/library/python:3", "python:3"),
        ("index.docker.io/team/x:1", "docker.io/team/x:1", "team/x:1"),
        ("host:5000/x", "host:5000/x:latest", "host:5000/x:latest"),
        ("localhost/a/b/c:1", "localhost/a/b/c:1", "localhost/a/b/c:1"),
        ("reg.example.org/a:1@" + A, "reg.example.org/a@" + A, "reg.example.org/a@" + A),
        ("a@" + A, "docker.io/library/a@" + A, "a@" + A),
        ("[::1]:5000/a", "[::1]:5000/a:latest", "[::1]:5000/a:latest"),
        ("a__b/c-d.e:T_1", "docker.io/a__b/c-d.e:T_1", "a__b/c-d.e:T_1"),
    ],
)
def test_names_are_completed_as_engines_do_and_shown_as_they_do(name: str, want: str, short: str):
    parsed = parse(name)
    assert parsed is not None
    assert (str(parsed), parsed.short) == (want, short)


@pytest.mark.parametrize(
    "name",
    ["", "A", "a b", "a:", "a@sha256:12", "host:99999/x", "-a", "a//b", "a/../b", "ho st/x", "x" * 501, "a?b", "é"],
)
def test_what_is_no_name(name: str):
    assert parse(name) is None


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("docker.io", "docker.io"),
        ("https://index.docker.io/v1/", "docker.io"),
        ("https://Reg.Example.org/", "reg.example.org"),
        ("10.0.0.7:5000", "10.0.0.7:5000"),
        ("registry/with/path", None),
        ("a b", None),
        ("user@host", None),
        ("", None),
    ],
)
def test_hosts_of_registries(text: str, want: str | None):
    if want is None:
        with pytest.raises(InvalidInput):
            registry_host(text)
    else:
        assert registry_host(text) == want


# -- what registries answer ---------------------------------------------------------------------


def packed(document: Any) -> bytes:
    return json.dumps(document).encode()


def entry(architecture: str, digest: str, os: str = "linux") -> dict[str, Any]:
    return {"digest": digest, "size": 3, "platform": {"architecture": architecture, "os": os}}


def test_an_index_is_read_without_what_linux_does_not_run():
    document = {
        "schemaVersion": 2,
        "mediaType": manifests.INDEX_TYPES[0],
        "manifests": [
            entry("amd64", A),
            entry("unknown", B, "unknown"),
            entry("amd64", B, "windows"),
            entry("arm64", C),
            entry("arm64", A),
            entry("../x", A),
            {"digest": 7},
            None,
        ],
    }
    index = manifests.read(packed(document))
    assert isinstance(index, manifests.ImageIndex)
    assert [(part.architecture, part.digest) for part in index.parts] == [("amd64", A), ("arm64", C)]
    assert (part := manifests.part_to_read(index, ["arm64"])) is not None
    assert part.digest == C
    assert manifests.of_index(index, ImageFacts(("arm64",), "cuda>=12")) == ImageFacts(("amd64", "arm64"), "cuda>=12")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"config": {"digest": "sha256:12", "size": 3}}',
        b'{"config": {"digest": "' + A.encode() + b'", "size": -3}}',
        b'{"config": {"digest": "' + A.encode() + b'", "size": true}}',
        b'{"schemaVersion": 1, "fsLayers": []}',
        b'{"config": "x"}',
    ],
)
def test_what_is_no_manifest(body: bytes):
    with pytest.raises(UnreadableManifest):
        manifests.read(body)


def test_a_config_tells_architecture_and_driver_and_nothing_strange():
    good = {"architecture": "arm64", "config": {"Env": ["A=b", "NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla"]}}
    assert manifests.read_config(packed(good)) == ImageFacts(("arm64",), "cuda>=12.4 brand=tesla")
    for strange in ({}, {"architecture": 7, "config": []}, {"architecture": "a b", "config": {"Env": [None, "X"]}}):
        assert manifests.read_config(packed(strange)) == ImageFacts()
    assert manifests.require_cuda(["NVIDIA_REQUIRE_CUDA=" + "x" * 501]) == ""
    assert manifests.require_cuda(["NVIDIA_REQUIRE_CUDA=a\x1bb"]) == ""


@pytest.mark.parametrize(
    ("image", "nodes", "want"),
    [
        ((), ("amd64",), ""),
        (("arm64",), ("amd64",), "arm64"),
        (("amd64", "arm64"), ("amd64", "arm64"), ""),
        (("amd64", "arm64"), ("amd64",), "amd64"),
        (("arm64", "s390x"), ("amd64",), "arm64"),
        (("amd64", "arm64"), (), ""),
    ],
)
def test_one_architecture_stands_only_for_images_that_need_it(image: Sequence[str], nodes: Sequence[str], want: str):
    assert manifests.architecture_for(image, nodes) == want


# -- what engines have --------------------------------------------------------------------------


def image(id: str, *names: str, digests: Sequence[str] = (), ours: bool = False) -> rm.EngineImage:
    return rm.EngineImage(id=id, names=names, repo_digests=digests, bytes=10, ours=ours)


def node(id: str, *images: rm.EngineImage, runtime: str = "docker", architecture: str = "amd64") -> rm.Node:
    capacity = rm.Capacity(runtime=runtime, architecture=architecture)
    return rm.Node(id=id, status=rm.NodeStatus(capacity=capacity, engine_images=images))


def found(name: str, *nodes: rm.Node) -> tuple[str, bool, tuple[str, ...]] | None:
    parsed = parse(name)
    assert parsed is not None
    told = EngineImages(nodes).find(parsed)
    return None if told is None else (told.digest, told.of_registry, told.nodes)


def test_engines_agree_on_what_a_name_means():
    local = node("n1", image(A, "x:1"))
    assert found("x:2", local) is None
    assert found("x:1", local, node("n2")) == (A, False, ("n1",))
    assert found("docker.io/library/x:1", local, node("n2", image(A, "x:1"))) == (A, False, ("n1", "n2"))
    assert found("x:1", local, node("n2", image(B, "x:1"))) == ("", False, ("n1", "n2"))
    assert found("x:1", node("n1", image(A, "x:1"), runtime="scripted")) is None


def test_a_digest_of_the_registry_is_better_than_an_id():
    amd = node("n1", image(A, "r.io/x:1", digests=[f"r.io/x@{C}"]))
    arm = node("n2", image(B, "r.io/x:1", digests=[f"r.io/x@{C}", f"r.io/x@{A}"]), architecture="arm64")
    assert found("r.io/x:1", amd, arm) == (C, True, ("n1", "n2")), "of another kind of machine, of the same index"
    loaded = node("n3", image(A, "r.io/x:1"))
    assert found("r.io/x:1", amd, loaded) == (C, True, ("n1", "n3")), "the same image, loaded by hand"
    changed = node("n4", image(B, "r.io/x:1"))
    assert found("r.io/x:1", amd, changed) == ("", False, ("n1", "n4"))
    elsewhere = node("n5", image(A, "r.io/x:1", digests=[f"other.io/x@{C}"]))
    assert found("r.io/x:1", elsewhere) == (A, False, ("n5",)), "it came from another registry"
    newer = node("n6", image(B, "r.io/x:1", digests=[f"r.io/x@{B}"]))
    assert found("r.io/x:1", amd, newer) == ("", True, ("n1", "n6"))
    assert found(f"r.io/x@{C}", amd) == (C, True, ("n1",))
    assert found(f"r.io/x@{A}", loaded) == (A, False, ("n3",))


# -- what is decided ----------------------------------------------------------------------------


class FakeRegistries:
    """Answers what a test says, and remembers what it was asked."""

    def __init__(
        self, answers: Mapping[str, ResolvedRegistryImage | RegistryFailure] | None = None, *, asks: bool = True
    ) -> None:
        self.answers = dict(answers or {})
        self.asks = asks
        self.asked: list[str] = []

    async def resolve(
        self, account: str, names: Iterable[ImageName], architectures: Sequence[str]
    ) -> dict[ImageName, ResolvedRegistryImage | RegistryFailure]:
        wanted = list(names)
        self.asked += [name.short for name in wanted]
        absent = RegistryFailure(FailureKind.ABSENT, "The registry has no such image.")
        return {name: self.answers.get(name.short, absent) for name in wanted}


ANN = Account("ann", 20_001, 20_001, False, True, False, False, 0.0)
AWAY = RegistryFailure(FailureKind.UNREACHABLE, "The registry can't be reached.")


async def pinned(name: str, registries: FakeRegistries, *nodes: rm.Node) -> ImagePin | UnknownName:
    pin, unknown = await Pinning(lambda: nodes, registries).image(ANN, name)
    return unknown or pin


async def test_without_a_real_machine_nobody_is_asked():
    registries = FakeRegistries()
    assert await pinned("x", registries) == ImagePin()
    assert await pinned("x", registries, node("n1", runtime="scripted")) == ImagePin()
    assert registries.asked == []


async def test_engines_come_before_the_registry():
    registries = FakeRegistries({"r.io/y:1": ResolvedRegistryImage(B, ImageFacts(("arm64",), "cuda>=12"))})
    machine = node("n1", image(A, "x:1"))
    local = await pinned("x:1", registries, machine)
    assert isinstance(local, ImagePin)
    assert (local.digest, local.source, local.bytes) == (A, common.IMAGE_SOURCE_ENGINE, 10)
    assert registries.asked == []
    away = await pinned("r.io/y:1", registries, machine)
    assert away == ImagePin(B, common.IMAGE_SOURCE_REGISTRY, "arm64", "cuda>=12")


async def test_what_headway_fetched_for_one_account_is_not_everybodys():
    machine = node("n1", image(A, "r.io/x:1", digests=[f"r.io/x@{C}"], ours=True))
    denied = FakeRegistries({"r.io/x:1": RegistryFailure(FailureKind.DENIED, "Not shown to you.")})
    assert isinstance(await pinned("r.io/x:1", denied, machine), UnknownName)
    away = await pinned("r.io/x:1", FakeRegistries({"r.io/x:1": AWAY}), machine)
    assert isinstance(away, ImagePin)
    assert (away.digest, away.source) == ("", common.IMAGE_SOURCE_UNKNOWN), "it is asked for where the task runs"
    written = await pinned(f"r.io/x@{C}", FakeRegistries(asks=False), machine)
    assert isinstance(written, ImagePin)
    assert (written.digest, written.source) == (C, common.IMAGE_SOURCE_UNKNOWN)
    by_id = await pinned(f"any/thing@{A}", FakeRegistries({f"any/thing@{A}": AWAY}), machine)
    assert isinstance(by_id, ImagePin)
    assert by_id.source == common.IMAGE_SOURCE_UNKNOWN, "it used to be whoever's who knew its id"
    by_admin = node("n1", image(A, "r.io/x:1", digests=[f"r.io/x@{C}"]))
    assert isinstance(await pinned("r.io/x:1", denied, by_admin), ImagePin)


async def test_no_id_and_no_name_of_headways_own_leads_to_what_it_brought():
    """An image that was brought for one account used to run for all who wrote the first two digits of its id."""
    brought, arriving, theirs = image(A, ours=True), image(B), image(C, "x:1")
    machine = node("n1", brought, arriving, theirs)
    nowhere = [A[7:9], A[7:19], A[7:], A, B, C[7:19], f"sha256:{'0' * 64}"]
    own = [f"headway.local/images:{A[7:]}", f"headway.local/images@{A}", "headway.local/x"]
    for registries in (FakeRegistries(), FakeRegistries(asks=False), FakeRegistries({f"{A[7:9]}:latest": AWAY})):
        for name in nowhere:
            told = await pinned(name, registries, machine)
            assert isinstance(told, UnknownName), name
            assert told.message.replace(name, "") == (
                "There is no image ``: you see none of that name in the image market, and the machine doesn't have "
                "it. Images are run by their names, not by their ids."
            )
        for name in own:
            told = await pinned(name, registries, machine)
            assert isinstance(told, UnknownName), name
            assert "is Headway's own name" in told.message
        assert registries.asked == []
        for name in (f"x@{A}", f"x@{B}"):
            told = await pinned(name, registries, machine)
            assert isinstance(told, UnknownName) or told.source == common.IMAGE_SOURCE_UNKNOWN, name
        registries.asked.clear()
    pin = await pinned(C, FakeRegistries(), machine)
    assert isinstance(pin, ImagePin)
    assert (pin.digest, pin.source) == (C, common.IMAGE_SOURCE_ENGINE), "people of the machine named it"
    assert MARK.startswith(f"{OWN_REGISTRY}/")


async def test_machines_that_disagree_leave_it_unpinned_with_their_names():
    machines = node("n1", image(A, "x:1")), node("n2", image(B, "x:1"))
    pin = await pinned("x:1", FakeRegistries(), *machines)
    assert isinstance(pin, ImagePin)
    assert (pin.digest, pin.source) == ("", common.IMAGE_SOURCE_UNKNOWN)
    assert "n1, n2" in pin.warning


async def test_the_registry_decides_between_machines_that_fetched_at_different_times():
    machines = [node(f"n{d}", image(d, "r.io/x:1", digests=[f"r.io/x@{d}"])) for d in (A, B)]
    pin = await pinned("r.io/x:1", FakeRegistries({"r.io/x:1": ResolvedRegistryImage(C)}), *machines)
    assert isinstance(pin, ImagePin)
    assert (pin.digest, pin.warning) == (C, "")
    pin = await pinned("r.io/x:1", FakeRegistries({"r.io/x:1": AWAY}), *machines)
    assert isinstance(pin, ImagePin)
    assert pin.digest == ""
    assert "different images" in pin.warning


async def test_what_is_surely_nowhere_is_unknown_with_the_nearest_name():
    machine = node("n1", image(A, "team/torch:2.4"))
    unknown = await pinned("team/torhc:2.4", FakeRegistries(), machine)
    assert isinstance(unknown, UnknownName)
    assert (unknown.field, unknown.word, unknown.suggestion) == ("image", "team/torhc:2.4", "team/torch:2.4")
    assert "no such image" in unknown.message


class FakeMarket:
    """An image market in which one account sees these images."""

    def __init__(self, images: Mapping[str, Sequence[str]]) -> None:
        self.images = images

    async def find(self, account: Account, image_name: str) -> None:
        return None

    async def tagged(self, account: Account, image_name: str) -> TaggedImage | None:
        name = image_name.partition(":")[0]
        return TaggedImage(name, self.images[name]) if name in self.images else None

    async def names(self, account: Account, at_most: int) -> Sequence[str]:
        return [f"{name}:{tag}" for name, tags in self.images.items() for tag in tags][:at_most]


@pytest.mark.parametrize("registries", [FakeRegistries(), FakeRegistries(asks=False)], ids=["refused", "warned"])
async def test_a_slip_in_a_name_of_the_market_is_told_refused_or_not(registries: FakeRegistries):
    market = FakeMarket({"bob/torch": ["2.5", "2.4"], "base/python": ["1"]})
    pinning = Pinning(lambda: [node("n1")], registries, market=market)
    for name, suggestion, sentence in (
        ("bob/torhc", "bob/torch:2.5", "Did you mean `bob/torch:2.5`?"),
        ("base/pyton:1", "base/python:1", "Did you mean `base/python:1`?"),
        ("bob/torch:2.40", "bob/torch:2.4", "`bob/torch` has the tags `2.5` and `2.4` in the image market."),
        ("base/python:3", "base/python:1", "`base/python` has only the tag `1` in the image market."),
        ("bob/quite-another:1", "", ""),
    ):
        pin, unknown = await pinning.image(ANN, name)
        told = unknown.message if unknown is not None else pin.warning
        assert told.endswith(sentence or "."), told
        assert ("Did you mean" in told or "has " in told) == bool(sentence) or not sentence
        assert unknown is None or unknown.suggestion == suggestion


async def test_what_may_be_somewhere_is_taken_with_a_warning():
    for registries in (FakeRegistries({"r.io/x:1": AWAY}), FakeRegistries(asks=False)):
        pin = await pinned("r.io/x:1", registries, node("n1"))
        assert isinstance(pin, ImagePin)
        assert (pin.digest, pin.source) == ("", common.IMAGE_SOURCE_UNKNOWN)
        assert "No machine has the image `r.io/x:1` yet" in pin.warning
    crowded = node("n2", *(image(A, f"y:{n}") for n in range(500)))
    assert isinstance(await pinned("x", FakeRegistries(), crowded), ImagePin), "it may have more than it tells"
    broken = node("n3")
    broken.status.conditions.add(word="engine_unavailable")
    assert isinstance(await pinned("x", FakeRegistries(), broken), ImagePin), "its engine could not be asked"


async def test_an_image_that_was_built_a_moment_ago_is_found_by_asking_the_machines():
    asked = 0

    async def fetch_nodes() -> Sequence[rm.Node]:
        nonlocal asked
        asked += 1
        return [node("n1", image(A, "x:1"))]

    registries = FakeRegistries({"r.io/y:1": ResolvedRegistryImage(B)})
    pinning = Pinning(lambda: [node("n1")], registries, fetch_nodes=fetch_nodes)
    pin, unknown = await pinning.image(ANN, "x:1")
    assert (pin.digest, pin.source, unknown) == (A, common.IMAGE_SOURCE_ENGINE, None)
    assert asked == 1
    assert (await pinning.image(ANN, "r.io/y:1"))[0].digest == B
    assert asked == 1, "what the registry knows needs no second look"
    assert (await pinning.image(ANN, "x:2"))[1] is not None


async def test_a_digest_that_was_written_is_kept():
    pin = await pinned(f"r.io/x@{A}", FakeRegistries({f"r.io/x@{A}": AWAY}), node("n1"))
    assert isinstance(pin, ImagePin)
    assert (pin.digest, pin.source) == (A, common.IMAGE_SOURCE_UNKNOWN)
    spec = common.TaskSpec(image=f"r.io/x@{A}")
    Pins({spec.image: pin}).put_into(spec)
    assert (spec.image_digest, spec.image_source) == (A, common.IMAGE_SOURCE_UNKNOWN)
    assert isinstance(await pinned(f"r.io/x@{A}", FakeRegistries(), node("n1")), UnknownName)


class FakeData:
    """Datasets and code that a test says are there; each question is counted."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def find(self, account: Account, reference: str) -> Any:
        self.asked.append(reference)
        if reference.startswith("sha256:"):
            return reference == A
        return PinnedVersion("mnist", reference.partition("@")[2] or "3") if reference.startswith("mnist") else None

    async def usable(self, account: Account) -> Mapping[str, Sequence[str]]:
        return {"mnist": ["1", "3"], "cifar": ["a"]}


async def test_datasets_and_code_are_looked_up_once_and_written_into_each_task():
    data = FakeData()
    pinning = Pinning(list, FakeRegistries(), datasets=data, code=data)
    wanted = JobNames(("x",), ("mnist", "mnist@1", "iris"), (A, B))
    pins = await pinning.pin(ANN, wanted)
    assert sorted(data.asked) == sorted([*wanted.datasets, *wanted.code])
    assert {(unknown.field, unknown.word) for unknown in pins.unknown} == {("datasets", "iris"), ("code", B)}
    near = (await pinning.pin(ANN, JobNames(datasets=("mmist", "iris")))).unknown
    assert [name.suggestion for name in near] == ["mnist", ""]
    assert near[0].message.endswith("that you may use. Did you mean `mnist`?")
    spec = common.TaskSpec(image="x", datasets=["mnist", "mnist@1"])
    pins.put_into(spec)
    assert [(pin.name, pin.version) for pin in spec.dataset_pins] == [("mnist", "3"), ("mnist", "1")]
    assert spec.image_source == common.IMAGE_SOURCE_UNKNOWN
    assert pins.refs("ann", JobNames(code=(A,))) == [
        Ref("dataset", "mnist@1"),
        Ref("dataset", "mnist@3"),
        Ref("code", f"ann/{A}"),
    ]


def test_many_warnings_are_counted_not_told():
    pins = Pins({str(n): ImagePin(warning=f"w{n}") for n in range(30)})
    assert len(pins.warnings) == 21
    assert pins.warnings[-1].startswith("10 more")


def test_unknown_names_are_told_where_they_stand():
    text = b"""
version: 1
name: n
defaults: {image: base, timeout: 1m, command: "true"}
tasks:
  - name: a
    datasets: [good, bad]
  - name: b
    image: other
"""
    unknown = (UnknownName("image", "base", "no base", "bass"), UnknownName("datasets", "bad", "no bad"))
    code = UnknownName("code", A, "no code")
    problems = job_file.all_problems(text, "yaml", job_file.Grants(False, False), (), (*unknown, code), A)
    assert [(problem.pointer, problem.message, problem.line) for problem in problems] == [
        ("", "no code", None),
        ("/tasks/0/image", "no base", 6),
        ("/tasks/0/datasets/1", "no bad", 7),
    ]
    assert problems[1].suggestion == "bass"
    found = job_file.examine(text, "yaml", job_file.Grants(False, False), A)
    assert found.wanted == JobNames(("base", "other"), ("good", "bad"), (A,))
