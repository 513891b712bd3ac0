"""What requests say: ranges and origins, and names of files in headers."""

from __future__ import annotations

import ipaddress
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import RangeInvalid
from httpserver.http import origin, ranges
from httpserver.http.disposition import attachment


@pytest.mark.parametrize(
    ("header", "size", "want"),
    [
        ("bytes=0-0", 10, (0, 1)),
        ("bytes=9-", 10, (9, 1)),
        ("bytes=-3", 10, (7, 3)),
        ("bytes=-30", 10, (0, 10)),
        ("bytes=2-100", 10, (2, 8)),
        ("Bytes = 2 - 3 ", 10, (2, 2)),
        ("bytes=10-", 10, "outside"),
        ("bytes=-0", 10, "outside"),
        ("bytes=0-", 0, "outside"),
        ("bytes=5-4", 10, None),
        ("bytes=-", 10, None),
        ("bytes=1-2,4-5", 10, None),
        ("items=1-2", 10, None),
        ("bytes=a-b", 10, None),
        ("bytes=" + "9" * 30 + "-", 10, None),
        (None, 10, None),
    ],
)
def test_ranges(header: str | None, size: int, want: object):
    wanted = ranges.parse(header)
    if want is None:
        assert wanted is None
    elif want == "outside":
        assert wanted is not None
        with pytest.raises(RangeInvalid) as refused:
            wanted.of(size)
        assert refused.value.extra["size"] == size
    else:
        assert wanted is not None
        assert wanted.of(size) == want


@given(st.integers(0, 99), st.integers(0, 99), st.integers(1, 99))
def test_a_range_never_leaves_the_content(first: int, last: int, size: int):
    wanted = ranges.parse(f"bytes={first}-{last}")
    if wanted is None:
        assert last < first
        return
    try:
        start, length = wanted.of(size)
    except RangeInvalid:
        assert first >= size
        return
    assert start == first
    assert 0 < length <= size - start


PROXY = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1/128"))


def found(peer: str, **headers: str) -> origin.Origin:
    given = {"scheme": "http", "host": "Gpus:80", "forwarded_for": "", "forwarded_proto": "", "forwarded_host": ""}
    return origin.find(peer=peer, trusted=PROXY, **{**given, **headers})


def test_forwarded_headers_count_from_trusted_proxies_only():
    lie = {"forwarded_for": "6.6.6.6", "forwarded_proto": "https", "forwarded_host": "evil"}
    assert found("9.9.9.9", **lie) == origin.Origin("9.9.9.9", False, "gpus:80")
    assert found("10.0.0.1", **lie) == origin.Origin("6.6.6.6", True, "evil", proxied=True)
    assert found("10.0.0.1", forwarded_for="1.1.1.1, 7.7.7.7, 10.2.2.2").client == "7.7.7.7"
    assert found("10.0.0.1").client == "10.0.0.1"
    assert found("::1", forwarded_for="garbage").client == "garbage"


@pytest.mark.parametrize(
    ("headers", "want"),
    [
        ({"site": "same-origin"}, True),
        ({"site": "same-origin", "origin": "https://evil"}, True),  # no script can set Sec-Fetch-Site
        ({"site": "same-site", "origin": "http://h:8080"}, False),
        ({"site": "none"}, False),
        ({"origin": "http://h:8080"}, True),
        ({"origin": "http://H:8080"}, True),
        ({"origin": "http://h"}, False),
        ({"origin": "http://h:8080.evil"}, False),
        ({"origin": "http://evil/h:8080"}, False),
        ({"origin": "null"}, False),
        ({"origin": "file://h:8080"}, False),
        ({"referer": "http://h:8080/page?x"}, True),
        ({"referer": "http://evil/?http://h:8080"}, False),
        ({}, False),
    ],
)
def test_the_same_origin(headers: dict[str, str], want: bool):
    given = {"site": "", "origin": "", "referer": "", **headers}
    assert origin.same_origin(**given, host="h:8080", secure=False) is want


def test_default_ports_need_not_be_named():
    assert origin.same_origin(site="", origin="https://h", referer="", host="h:443", secure=True)
    assert origin.same_origin(site="", origin="https://h:443", referer="", host="h", secure=True)
    assert not origin.same_origin(site="", origin="http://h", referer="", host="h", secure=True)
    assert origin.same_origin(site="", origin="http://[::1]:80", referer="", host="[::1]", secure=False)


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "localhost."])
def test_names_of_this_machine_are_allowed(host: str):
    assert origin.host_allowed(host, {"localhost", "127.0.0.1", "::1"})


@pytest.mark.parametrize("host", ["", "evil", "localhost.evil", "127.0.0.1.evil:80", "localhost@evil", "[::2]"])
def test_other_names_are_not(host: str):
    assert not origin.host_allowed(host, {"localhost", "127.0.0.1", "::1"})
    assert origin.host_allowed(host, ())


@given(st.text(st.characters(exclude_categories=()), min_size=1, max_size=80))
def test_a_file_header_is_one_line_of_ascii_whatever_the_name(name: str):
    name = name.encode("utf-8", "replace").decode() if any(0xD800 <= ord(c) <= 0xDFFF for c in name) else name
    header = attachment(name)
    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2
    assert header.startswith('attachment; filename="')
    if "filename*=" in header:
        assert unquote_to_bytes(header.partition("filename*=UTF-8''")[2]).decode() == name
