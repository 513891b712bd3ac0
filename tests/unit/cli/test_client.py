"""The HTTP client against a scripted transport."""

import httpx
import pytest
from click.testing import CliRunner

from headway import errors
from headway.cli import files
from headway.client import Client, NoService, Profile, Refused
from headway.client import http as client_http


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(client_http.time, "sleep", lambda _seconds: None)


def a_client(handler):
    return Client(Profile(url="http://headway.test", token="secret"), transport=httpx.MockTransport(handler))


def test_a_submit_whose_answer_was_lost_is_sent_again_with_the_same_id():
    """Used to: a client that timed out and sent its POST again got two jobs (WEB-05)."""
    keys = []

    def handler(request):
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) < 3:
            raise httpx.ReadError("cut", request=request)
        return httpx.Response(201, json={"id": "j1"})

    with a_client(handler) as http:
        assert http.submit(b"version: 1")["id"] == "j1"
    assert len(keys) == 3
    assert len(set(keys)) == 1


@pytest.mark.parametrize("first", [httpx.ReadError, httpx.RemoteProtocolError, httpx.ReadTimeout, httpx.WriteError])
def test_a_deletion_that_finds_nothing_after_a_lost_answer_is_done(first):
    calls = []

    def handler(request):
        calls.append(request.method)
        if len(calls) == 1:
            raise first("cut", request=request)
        return httpx.Response(404, json={"title": "none", "detail": "There is no such thing."})

    for delete in (
        lambda http: http.ask("DELETE", "/jobs/j1"),
        lambda http: http.delete_file("a"),
        lambda http: http.end_user_tokens("ann", "tokens", "t1"),
    ):
        calls.clear()
        with a_client(handler) as http:
            delete(http)
        assert len(calls) == 2


@pytest.mark.parametrize(("first", "method"), [(httpx.ConnectError, "DELETE"), (httpx.ReadError, "GET")])
def test_what_is_not_there_is_told_where_no_deletion_can_have_taken_it_away(first, method):
    calls = []

    def handler(request):
        calls.append(request.method)
        if len(calls) == 1:
            raise first("cut", request=request)
        return httpx.Response(404, json={"title": "none", "detail": "There is no such thing."})

    with a_client(handler) as http, pytest.raises(Refused):
        http.ask(method, "/jobs/j1")


def test_an_upload_is_not_sent_twice_by_itself(tmp_path):
    calls = []

    def handler(request):
        calls.append(request.method)
        raise httpx.ReadError("cut", request=request)

    source = tmp_path / "a"
    source.write_bytes(b"x")
    with a_client(handler) as http, pytest.raises(NoService):
        http.put_file("a", source)
    assert calls == ["PUT"]


def test_nobody_at_the_address_is_one_sentence_that_says_what_to_do():
    def handler(request):
        raise httpx.ConnectError("refused", request=request)

    with (
        a_client(handler) as http,
        pytest.raises(NoService, match=r"does not answer at http://headway\.test.*headway up"),
    ):
        http.me()


def test_a_refusal_carries_every_problem_with_its_place():
    body = {
        "type": "urn:headway:problem:job-file-invalid",
        "title": "The job file has problems",
        "detail": "2 problems",
        "request_id": "r1",
        "errors": [
            {"pointer": "/tasks/0/image", "message": "no image", "line": 3, "column": 5, "word": "imag"},
            {"pointer": "", "message": "no name", "newer_field": 1},
        ],
    }
    with a_client(lambda _r: httpx.Response(422, json=body)) as http, pytest.raises(Refused) as caught:
        http.submit(b"x")
    assert caught.value.kind is errors.JobFileInvalid
    assert [p.line for p in caught.value.problems] == [3, None]
    assert caught.value.request_id == "r1"


@pytest.mark.parametrize("content", [b"<html>", b"", b"[1]"])
def test_a_refusal_by_something_that_is_not_headway_is_still_a_sentence(content):
    answer = httpx.Response(502, content=content, headers={"content-type": "application/json"})
    with (
        a_client(lambda _r: answer) as http,
        pytest.raises(Refused, match="answered with status 502 and application"),
    ):
        http.me()


def test_following_takes_up_a_broken_log_at_the_byte_where_it_broke():
    """Used to: after each reconnect the last line was shown twice (LOG-12)."""

    class Cut(httpx.SyncByteStream):
        def __init__(self, parts, broken):
            self.parts, self.broken = parts, broken

        def __iter__(self):
            yield from self.parts
            if self.broken:
                raise httpx.ReadError("cut")

    offsets = []

    def handler(request):
        offset = int(request.url.params["offset"])
        offsets.append(offset)
        whole = b"one\ntwo\nthree\n"
        return httpx.Response(200, stream=Cut([whole[offset : offset + 5]], broken=offset + 5 < len(whole)))

    with a_client(handler) as http:
        assert b"".join(http.follow_log("j1", "a")) == b"one\ntwo\nthree\n"
    assert offsets == [0, 5, 10]


def test_all_jobs_are_listed_page_by_page_once():
    pages = {None: (["j3", "j2"], "j2"), "j2": (["j1"], None)}

    def handler(request):
        ids, cursor = pages[request.url.params.get("cursor")]
        return httpx.Response(200, json={"jobs": [{"id": i} for i in ids], "next_cursor": cursor})

    with a_client(handler) as http:
        assert [j["id"] for j in http.jobs()] == ["j3", "j2", "j1"]
        assert [j["id"] for j in http.jobs(limit=2)] == ["j3", "j2"]


def test_names_can_not_leave_their_place_in_the_address():
    seen = []

    def handler(request):
        seen.append(request.url.raw_path.decode())
        return httpx.Response(200, json={}) if "/jobs/" in request.url.path else httpx.Response(200, content=b"x")

    with a_client(handler) as http:
        with pytest.raises(errors.NotFound, match=r"There is no job `\.\./users`\."):
            http.job("../users")
        http.job("%2e%2e?x#ü")
        http.get_file("a b/ü?x#y", __import__("io").BytesIO())
    assert seen == ["/api/v1/jobs/%252e%252e%3Fx%23%C3%BC", "/api/v1/files/a%20b/%C3%BC%3Fx%23y"]


@pytest.mark.parametrize("path", ["../me", "a/../../session", "..", "a/.."])
def test_a_path_of_the_personal_space_that_goes_up_is_not_sent(path):
    """Used to: `files rm ../session` was resolved on its way into the address, and signed out."""
    with (
        a_client(lambda _r: pytest.fail("nothing is asked")) as http,
        pytest.raises(errors.InvalidInput, match="go up"),
    ):
        http.delete_file(path)


def test_a_file_name_that_is_not_utf_8_reaches_the_server_byte_for_byte():
    seen = []

    def handler(request):
        seen.append(request.url.raw_path.decode())
        return httpx.Response(200, content=b"x")

    with a_client(handler) as http:
        http.get_file("./a//b\udcff", __import__("io").BytesIO())
    assert seen == ["/api/v1/files/a/b%FF"]


def test_hundreds_of_logs_are_followed_at_once():
    """Used to: a hundred connections were all there were, so that of a job with more than fifty running tasks some
    logs were never shown and the command ended with "Headway does not answer"."""
    with Client(Profile(url="http://headway.test", token="secret")) as http:
        assert http._http._transport._pool._max_connections > 10_000


@pytest.mark.parametrize("away", [httpx.ConnectError("away"), 503])
def test_a_wait_outlasts_a_service_that_is_started_again(away):
    """Used to: `wait` and `logs -f` ended with "Headway does not answer" when HttpServer was gone for two seconds."""
    calls = []

    def handler(request):
        calls.append(request)
        if 1 < len(calls) < 12:
            if isinstance(away, Exception):
                raise away
            return httpx.Response(away, json={})
        return httpx.Response(200, json={"id": "j1", "state": "RUNNING" if len(calls) == 1 else "SUCCEEDED"})

    with a_client(handler) as http:
        assert http.wait("j1")["state"] == "SUCCEEDED"


def test_a_wait_for_a_server_that_never_answered_ends_at_once():
    calls = []

    def handler(request):
        calls.append(request)
        raise httpx.ConnectError("away")

    with a_client(handler) as http, pytest.raises(NoService):
        http.wait("j1")
    assert len(calls) <= 4


def test_a_followed_log_outlasts_a_service_that_is_started_again():
    calls = []

    class Cut(httpx.SyncByteStream):
        def __iter__(self):
            yield b"one "
            raise httpx.ReadError("cut")

    def handler(request):
        calls.append(request)
        if len(calls) == 1:
            return httpx.Response(200, stream=Cut())
        if len(calls) < 12:
            raise httpx.ConnectError("away")
        return httpx.Response(200, stream=httpx.ByteStream(b"two"))

    with a_client(handler) as http:
        assert b"".join(http.follow_log("j1", "a")) == b"one two"


def test_a_folder_is_not_fetched_as_a_file():
    """Used to: `files get FOLDER` stored the JSON of its listing."""
    target = __import__("io").BytesIO()
    with (
        a_client(lambda _r: httpx.Response(200, json={"entries": []})) as http,
        pytest.raises(errors.Conflict, match="is a folder"),
    ):
        http.get_file("a", target)
    assert target.getvalue() == b""


class TestProfile:
    def test_the_environment_wins_and_a_stored_token_stays_with_its_address(self, tmp_path):
        env = {"XDG_CONFIG_HOME": str(tmp_path)}
        Profile("http://a:1", 'to"ken', "me").save(tmp_path / "headway" / "client.toml")
        assert Profile.load(env) == Profile("http://a:1", 'to"ken', "me")
        assert Profile.load({**env, "HEADWAY_URL": "http://evil:1"}).token == ""
        assert Profile.load({**env, "HEADWAY_TOKEN": "t"}).token == "t"

    def test_it_is_readable_by_its_owner_alone(self, tmp_path):
        path = Profile("http://a:1", "t", "me").save(tmp_path / "client.toml")
        assert path.stat().st_mode & 0o777 == 0o600

    def test_a_broken_file_is_told_with_its_path(self, tmp_path):
        (tmp_path / "headway").mkdir()
        (tmp_path / "headway" / "client.toml").write_text("url = ")
        with pytest.raises(errors.ConfigInvalid, match=r"client\.toml is not valid TOML"):
            Profile.load({"XDG_CONFIG_HOME": str(tmp_path)})


def test_a_file_that_is_put_makes_its_folders(tmp_path, monkeypatch):
    """Used to: "make it first, or ask that it be made on the way (parents=true)", while a large file just did."""
    asked = []

    def handler(request):
        asked.append(request.url.raw_path.decode())
        return httpx.Response(201, json={})

    (tmp_path / "a").write_text("x")
    monkeypatch.setattr(files, "client", lambda: a_client(handler))
    CliRunner().invoke(files.files, ["put", str(tmp_path / "a"), "several/f1"], catch_exceptions=False)
    assert asked == ["/api/v1/files/several/f1?parents=true"]
