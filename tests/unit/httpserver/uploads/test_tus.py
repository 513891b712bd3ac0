"""What tus says in its headers, and how much may come."""

from __future__ import annotations

import base64
import hashlib

import pytest
from starlette.datastructures import Headers

from headway.errors import HeadwayError, InvalidInput, StoreFull, TooLarge
from httpserver.uploads import limits, tus
from httpserver.uploads.errors import BadContentType, WrongVersion


def b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ("", {}),
        ("  ", {}),
        (f"path {b64('a/b.txt')}", {"path": "a/b.txt"}),
        (f"path {b64('a')},flag", {"path": "a", "flag": ""}),
        (f"flag ,path {b64('a')}", {"path": "a", "flag": ""}),
        (f"path {b64('a')}, name {b64('ü')}", {"path": "a", "name": "ü"}),
        (f"path {b64(bytes([0xFF, 0x41]))}", {"path": "\udcffA"}),
    ],
    ids=["none", "blanks", "one", "no value", "empty value", "space after the comma", "no UTF-8"],
)
def test_metadata(said: str, want: dict[str, str]):
    assert tus.metadata(said) == want


@pytest.mark.parametrize(
    ("said", "word"),
    [
        (",", "pair 1"),
        (f"a {b64('x')},", "pair 2"),
        (f"a {b64('x')},,b {b64('y')}", "pair 2"),
        (f"a {b64('x')},a {b64('y')}", "twice"),
        ("a not~base64", "base64"),
        ("a YQ", "base64"),
        ("a YQ== YQ==", "base64"),
        ("a  YQ==", "base64"),
        ("ä YQ==", "pair 1"),
        ("a YQ==\u00e9", "base64"),
        ("a\tb YQ==", "pair 1"),
        ("a" * 101, "pair 1"),
        (",".join(f"k{i}" for i in range(41)), "more than 40"),
        (f"a {b64('x' * 20_000)}", "longer"),
    ],
)
def test_metadata_that_is_none_is_refused_where_it_is_wrong(said: str, word: str):
    with pytest.raises(InvalidInput, match=word):
        tus.metadata(said)


@pytest.mark.parametrize(
    ("headers", "want"),
    [
        ({"upload-length": "0"}, 0),
        ({"upload-length": "9223372036854775807"}, 2**63 - 1),
        ({"upload-defer-length": "1"}, None),
        ({}, "missing"),
        ({"upload-length": "-1"}, "number"),
        ({"upload-length": "+1"}, "number"),
        ({"upload-length": "1.0"}, "number"),
        ({"upload-length": "\u00b2"}, "number"),
        ({"upload-length": "9223372036854775808"}, "number"),
        ({"upload-defer-length": "0"}, "must be 1"),
        ({"upload-defer-length": "1", "upload-length": "5"}, "not both"),
        ({"upload-concat": "partial", "upload-length": "5"}, "joined"),
    ],
)
def test_the_length_of_a_new_upload(headers: dict[str, str], want: int | str | None):
    if isinstance(want, str):
        with pytest.raises(InvalidInput, match=want):
            tus.creation_length(Headers(headers))
    else:
        assert tus.creation_length(Headers(headers)) == want


@pytest.mark.parametrize("algorithm", tus.ALGORITHMS)
def test_a_checksum(algorithm: str):
    digest = hashlib.new(algorithm, b"x").digest()
    found = tus.checksum(f"{algorithm} {b64(digest)}")
    assert found is not None
    assert found.digest == digest
    fed = found.start()
    fed.update(b"x")
    assert fed.digest() == digest


@pytest.mark.parametrize("said", ["", "sha1", "crc32 AAAA", "SHA1 AAAA", "sha1 AAAA", "sha1 ???", "sha256"])
def test_a_checksum_that_is_none_is_refused(said: str):
    with pytest.raises(InvalidInput, match="Upload-Checksum"):
        tus.checksum(said)


def test_version_and_content_type():
    tus.check_version("1.0.0")
    for version in (None, "", "0.2.2", "1.0.1", "1.0.0, 1.0.0"):
        with pytest.raises(WrongVersion):
            tus.check_version(version)
    tus.check_content_type("Application/Offset+Octet-Stream; x=y")
    for media in (None, "", "application/octet-stream", "application/offset+octet-streams"):
        with pytest.raises(BadContentType):
            tus.check_content_type(media)


def test_a_sha256_is_64_digits():
    assert tus.sha256_of({}) == ""
    assert tus.sha256_of({"sha256": "AB" * 32}) == "ab" * 32
    for word in ("ab", "xy" * 32, "ab" * 33):
        with pytest.raises(InvalidInput):
            tus.sha256_of({"sha256": word})


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        ("POST", "files", True),
        ("PATCH", "files/abc", True),
        ("POST", "files/abc", False),
        ("PATCH", "files", False),
        ("PUT", "files/abc", False),
    ],
)
def test_only_pieces_may_have_any_size(method: str, path: str, want: bool):
    assert tus.takes_any_size(method, f"/api/v1/uploads/{path}") is want
    assert not tus.takes_any_size(method, f"/api/v1/upload/{path}")


def test_a_method_is_overridden_only_for_uploads():
    scope = {"path": "/api/v1/uploads/files/x", "method": "POST"}
    assert tus.overridden(scope, "PATCH") == {**scope, "method": "PATCH"}
    assert scope["method"] == "POST", "the answer is framed by the method on the wire"
    assert tus.overridden(scope, None) is scope
    assert tus.overridden(scope, "patch") is scope
    other = {"path": "/api/v1/jobs/x", "method": "POST"}
    assert tus.overridden(other, "DELETE") is other


GIB = 1 << 30


@pytest.mark.parametrize(
    ("more", "free", "promised", "want"),
    [
        (0, 0, 0, None),
        (GIB, 2 * GIB, 0, None),
        (GIB, GIB, 0, "1.0 GiB are to come, and 1008.0 MiB are left."),
        (GIB, 2 * GIB, GIB, "not counting 1.0 GiB of other uploads"),
        (1, 0, 5 * GIB, "1 bytes are to come, and 0 bytes are left"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(more: int, free: int, promised: int, want: str | None):
    if want is None:
        limits.refuse_without_space(more, free, promised)
        return
    with pytest.raises(StoreFull, match=want):
        limits.refuse_without_space(more, free, promised)


def test_what_is_too_large():
    limits.refuse_too_large(10**15, 0)
    limits.refuse_beyond(5, 5, 0)
    limits.refuse_beyond(5, None, 5)
    refused: list[tuple[object, ...]] = [(limits.refuse_too_large, 6, 5), (limits.refuse_beyond, 6, None, 5)]
    for call, *arguments in [*refused, (limits.refuse_beyond, 6, 5, 0)]:
        with pytest.raises(TooLarge) as error:
            call(*arguments)  # type: ignore[operator]
        assert isinstance(error.value, HeadwayError)
