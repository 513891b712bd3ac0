"""Which proxy is taken for which address."""

from __future__ import annotations

import pytest

from headway.client.proxies import proxy_for
from headway.errors import ConfigInvalid

FAR = "http://gpus.example.org:8080"
P = "http://proxy:3128"


def taken(url: str, **environ: str) -> str | None:
    proxy = proxy_for(url, environ)
    return None if proxy is None else proxy.url


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080", "http://127.8.8.8", "http://localhost:8080", "http://LOCALHOST", "http://[::1]:8080",
        "http://up.localhost", "http://0.0.0.0:8080", "http://[::ffff:127.0.0.1]", "https://localhost",
    ],
)  # fmt: skip
def test_this_machine_is_never_reached_through_a_proxy(url: str) -> None:
    assert taken(url, http_proxy=P, https_proxy=P, all_proxy=P) is None


@pytest.mark.parametrize(
    ("url", "environ", "want"),
    [
        (FAR, {"http_proxy": P}, P),
        (FAR, {"HTTP_PROXY": P}, P),
        (FAR, {"http_proxy": "proxy:3128"}, P),
        (FAR, {"http_proxy": " " + P + " "}, P),
        (FAR, {"https_proxy": P}, None),
        (FAR, {"all_proxy": P}, P),
        (FAR, {"ALL_PROXY": "socks5h://proxy:1080"}, "socks5h://proxy:1080"),
        (FAR, {"http_proxy": P, "HTTP_PROXY": "http://other"}, P),
        (FAR, {"http_proxy": P, "all_proxy": "http://other"}, P),
        (FAR, {"http_proxy": "", "HTTP_PROXY": P, "all_proxy": P}, None),
        (FAR, {"HTTP_PROXY": P, "REQUEST_METHOD": "GET"}, None),
        ("https://gpus.example.org", {"https_proxy": P, "http_proxy": "http://other"}, P),
        ("https://gpus.example.org", {"http_proxy": P}, None),
    ],
)
def test_the_variable_by_the_address(url: str, environ: dict[str, str], want: str | None) -> None:
    assert taken(url, **environ) == want


@pytest.mark.parametrize(
    ("no_proxy", "url", "excepted"),
    [
        ("*", FAR, True),
        ("gpus.example.org", FAR, True),
        ("example.org", FAR, True),
        (".example.org", FAR, True),
        ("*.example.org", FAR, True),
        ("EXAMPLE.org", FAR, True),
        ("a.org, example.org", FAR, True),
        ("a.org example.org", FAR, True),
        ("example.org:8080", FAR, True),
        ("example.org:80", FAR, False),
        ("ample.org", FAR, False),
        ("org.example", FAR, False),
        ("", FAR, False),
        (",", FAR, False),
        (".", FAR, False),
        ("10.0.0.0/8", "http://10.1.2.3", True),
        ("10.1.2.3", "http://10.1.2.3", True),
        ("10.1.2.3:80", "http://10.1.2.3", True),
        ("10.1.2.3:81", "http://10.1.2.3", False),
        ("10.0.0.0/8", "http://11.1.2.3", False),
        ("10.0.0.0/99", "http://10.1.2.3", False),
        ("2.3", "http://10.1.2.3", False),
        ("fd00::/8", "http://[fd12::1]:8080", True),
        ("[fd00::]/8", "http://[fd12::1]", True),
        ("fd12::1", "http://[fd12::1]", True),
        ("[fd12::1]", "http://[fd12::1]:8080", True),
        ("[fd12::1]:8080", "http://[fd12::1]:8080", True),
        ("[fd12::1]:81", "http://[fd12::1]:8080", False),
        ("[::1]", FAR, False),
        ("fd00::/8", FAR, False),
        ("[", FAR, False),
    ],
)
def test_what_no_proxy_excepts(no_proxy: str, url: str, excepted: bool) -> None:
    assert (taken(url, http_proxy=P, NO_PROXY=no_proxy) is None) is excepted


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("socks4://proxy", "all_proxy names a proxy of the kind 'socks4'; known are http, https, socks5, socks5h."),
        ("ftp://proxy", "'ftp'"),
        ("http://", "names no host"),
        ("http://:3128", "names no host"),
        ("http://proxy:port", "names no address of a proxy"),
        ("http://[::1", "names no address of a proxy"),
    ],
)
def test_what_is_no_proxy_is_one_sentence_with_its_variable(value: str, told: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        proxy_for(FAR, {"all_proxy": value})
    assert told in refused.value.message
    assert "all_proxy" in refused.value.message
    assert "NO_PROXY=gpus.example.org" in refused.value.message


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("http://ann:secret@proxy:3128", "http://ann:***@proxy:3128"),
        ("ann:secret@proxy:3128", "http://ann:***@proxy:3128"),
        ("http://secret@proxy", "http://***@proxy"),
        ("socks5://:secret@[fd00::1]:1080", "socks5://:***@[fd00::1]:1080"),
    ],
)
def test_no_password_is_shown(value: str, shown: str) -> None:
    proxy = proxy_for(FAR, {"http_proxy": value})
    assert proxy is not None
    assert proxy.shown == shown
    assert "secret" in proxy.url
