"""The HTTP client: one method a call of the API, JSON in and out, errors as one family."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote

import httpx

from ..backoff import Backoff, grown_s
from ..errors import Conflict, InvalidInput, NotFound
from ..states import JOB_ENDED
from .answers import Answer, not_ours, parsed, read_json
from .connection import Connection, check_ours
from .errors import NoService, NotHeadway, Refused, media_of
from .names import path_part
from .profile import Profile

_API = "/api/v1"
LAST = "last"  # an id has no L
_TRIES = 4
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 3.0
_PATIENCE = 30
_PATIENT_PAUSE_S = 2.0
_CHUNK = 1 << 16
_REMOVAL = httpx.Timeout(1_800.0, connect=5.0)  # of millions of files

# Nothing has reached the server.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)

T = TypeVar("T")


def perhaps_sent(error: BaseException | None) -> bool:
    """Whether a call that failed so, or the cause of :class:`NoService`, may have reached the server."""
    return not isinstance(error, _NOT_SENT)


def _check_log(response: httpx.Response) -> None:
    # A task's JSON comes as plain text.
    if "json" in media_of(response) or not response.headers.get("x-log-offset", "0").isdecimal():
        raise not_ours(response)


class Client:
    """Talks to one server. Every call may raise :class:`NoService` or :class:`Refused`.

    Reads can be repeated safely, and so can mutating calls, by their request id. They are tried again when the
    connection breaks. A lost answer never makes a second job. What a deletion doesn't find when it is tried again is
    deleted.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        timeout_s: float = 30.0,
        tries: int = _TRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.profile = profile
        self._connection = Connection(profile, timeout_s=timeout_s, transport=transport)
        self._http = self._connection.http
        self._tries = tries

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    # --- transport

    def _send(
        self, method: str, path: str, *, repeat: bool = True, stream: bool = False, **kwargs: Any
    ) -> httpx.Response:
        tries = self._tries if repeat else 1
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        perhaps_done = False
        for attempt in range(1, tries + 1):
            try:
                request = self._http.build_request(method, path, **kwargs)
                response = self._http.send(request, stream=stream)
            except httpx.TransportError as error:
                if attempt == tries:
                    raise self._connection.no_answer(error) from error
                perhaps_done = perhaps_done or perhaps_sent(error)
                time.sleep(pauses.next_s())
                continue
            if response.status_code == 404 and method == "DELETE" and perhaps_done:
                response.close()
                return httpx.Response(204, request=request)
            if response.status_code >= 400:
                response.read()
                raise Refused.from_response(response, self._connection.via)
            try:
                check_ours(response)
            except NotHeadway:
                response.close()
                raise
            return response
        raise AssertionError("unreachable")

    def patiently(self, call: Callable[[], T]) -> T:
        """Makes a call that may wait: a service that is being started again gets a minute to answer."""
        for _ in range(_PATIENCE):
            try:
                return call()
            except NoService:
                pass
            except Refused as refused:
                if refused.status not in (502, 503, 504):
                    raise
            time.sleep(_PATIENT_PAUSE_S)
        return call()

    def _json(self, method: str, path: str, **kwargs: Any) -> Any:
        return read_json(self._send(method, _API + path, **kwargs))

    def ask(self, method: str, path: str, **kwargs: Any) -> Any:
        """One call below /api/v1: its JSON, or None for an empty answer."""
        return self._json(method, path, **kwargs)

    def stream(self, path: str, params: Mapping[str, Any], *, silent_s: float) -> httpx.Response:
        """An answer that goes on for long; the caller reads and closes it. After so much silence it breaks off."""
        timeout = httpx.Timeout(30.0, read=silent_s)
        return self._send("GET", path, params=params, stream=True, timeout=timeout)

    def download(self, path: str, target: BinaryIO, progress: Any = None) -> int:
        """Writes what a call below /api/v1 sends; returns how many bytes.

        Raises:
            NoService: it broke off; what was written is not whole.
        """
        return self._download(_API + path, target, progress)

    def help_page(self, name: str) -> str:
        """A page of the documentation as Markdown; a server of an older version has none."""
        return self._send("GET", f"/help/{quote(name)}.md").text

    def readiness(self) -> Answer:
        """What the server needs, each with `ok` or a sentence. One that is not ready answers too."""
        try:
            response = self._http.get("/readyz")
        except httpx.TransportError as error:
            raise self._connection.no_answer(error) from error
        if response.status_code not in (200, 503) or "json" not in media_of(response):
            raise Refused.from_response(response, self._connection.via)
        return parsed(response.content, response)

    def server_version(self) -> str:
        """Headway's version there."""
        return str(read_json(self._send("GET", "/healthz")).get("version", ""))

    # --- who

    def login(self, username: str, password: str) -> Answer:
        """Opens a session: ``{user, token}``."""
        answer: Answer = self._json("POST", "/session", json={"username": username, "password": password})
        return answer

    def logout(self) -> None:
        """Ends the session; one that has ended already is fine."""
        try:
            self._send("DELETE", _API + "/session")
        except Refused as refused:
            if refused.status != 401:
                raise

    def me(self) -> dict[str, Any]:
        answer: dict[str, Any] = self._json("GET", "/me")
        return answer

    # --- jobs

    def submit(
        self,
        job_file: bytes,
        *,
        media: str = "application/yaml",
        dry_run: bool = False,
        allow_unsatisfiable: bool = False,
        request_id: str | None = None,
        code: str = "",
        changes: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Submits a job file; the same ``request_id`` (made up when None) never makes a second job. ``code`` is the
        snapshot for all tasks that name none; it has gone up, so a server that is started anew now is waited for.
        ``changes`` set fields in place of what the file says: ``timeout=1h``, ``train.gpus=2``."""
        params: dict[str, Any] = {
            **({"dry_run": "true"} if dry_run else {}),
            **({"allow_unsatisfiable": "true"} if allow_unsatisfiable else {}),
            **({"code": code} if code else {}),
            **({"set": list(changes)} if changes else {}),
        }
        headers = {"Content-Type": media, "Idempotency-Key": request_id or uuid.uuid4().hex}

        def send() -> dict[str, Any]:
            answer: dict[str, Any] = self._json("POST", "/jobs", content=job_file, params=params, headers=headers)
            return answer

        return self.patiently(send) if code else send()

    def jobs(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """All jobs that match (``state``, ``owner``, ``q``), newest first, page by page; ``gpus_booked`` of each tells
        how many GPUs it holds now."""
        params = {k: v for k, v in filters.items() if v}
        limit = int(params.pop("limit", 0)) or None
        seen = 0
        while True:
            page = self._json("GET", "/jobs", params={**params, "limit": min(limit or 200, 200)})
            booked = None if page.get("gpus_booked") is None else page.part("gpus_booked")
            for job in page.rows("jobs"):
                # Beside the jobs in the answer; None: not known now, or by an older server.
                job["gpus_booked"] = None if booked is None else booked.get(job["id"], 0)
                yield job
                seen += 1
                if limit and seen >= limit:
                    return
            if not page.get("next_cursor"):
                return
            params["cursor"] = page["next_cursor"]

    def last(self) -> dict[str, Any]:
        """The account's latest job.

        Raises:
            NotFound: it has none.
        """
        for job in self.jobs(owner=self.me()["name"], limit=1):
            return job
        raise NotFound("You have no job yet. `headway submit FILE` makes one.")

    def meant(self, job_id: str) -> str:
        """``job_id``, or the id of the latest job for `last`. It is looked up once, so that calls made again, or one
        after another, mean the same job."""
        return str(self.last()["id"]) if job_id == LAST else job_id

    def _job(self, job_id: str) -> str:
        """A job's id as a part of an address."""
        return path_part(self.meant(job_id), "job")

    def job(self, job_id: str, *, attempts: bool = True) -> dict[str, Any]:
        """One job with tasks, edges and attempts; ``job_id`` may be shortened while unique. What could not be had is
        in ``missing``. Without ``attempts`` nothing is asked of TaskManager: no attempts, no places in the queue."""
        params = {} if attempts else {"attempts": "false"}
        answer: Answer = self._json("GET", f"/jobs/{self._job(job_id)}", params=params)
        if "tasks" in answer:
            answer.rows("tasks")
        return answer

    def task(self, job_id: str, name: str) -> dict[str, Any]:
        """One task of a job with its attempts."""
        task: dict[str, Any] = self.task_detail(job_id, name).part("task")
        return task

    def task_detail(self, job_id: str, name: str) -> Answer:
        """One task with its job and, for its owner and admins, what was submitted of it (``spec``)."""
        path = f"/jobs/{self._job(job_id)}/tasks/{path_part(name, 'task')}"
        answer: Answer = self._json("GET", path)
        return answer

    def spec(self, job_id: str) -> dict[str, Any]:
        """The job file as it was submitted, loss-free."""
        answer: dict[str, Any] = self._json("GET", f"/jobs/{self._job(job_id)}/spec")
        return answer

    def act(self, action: str, job_id: str, task: str = "") -> dict[str, Any]:
        """``action`` is cancel, retry, hold or release; on the whole job or one task."""
        path = f"/jobs/{self._job(job_id)}" + (f"/tasks/{path_part(task, 'task')}" if task else "") + f"/{action}"
        answer: dict[str, Any] = self._json("POST", path, headers={"Idempotency-Key": uuid.uuid4().hex})
        return answer

    def wait(self, job_id: str, *, poll_s: float = 0.3, timeout_s: float | None = None) -> dict[str, Any]:
        """Returns the job once it has ended.

        Raises:
            TimeoutError: it has not ended within ``timeout_s``.
        """
        job_id = self.meant(job_id)
        limit = None if timeout_s is None else time.monotonic() + timeout_s
        pauses = Backoff(poll_s, max(poll_s, 2.0), factor=1.3)

        def look() -> dict[str, Any]:
            found: dict[str, Any] = self._json("GET", f"/jobs/{self._job(job_id)}", params={"tasks_limit": 0})
            return found

        job = look()
        while True:
            if job["state"] in JOB_ENDED:
                return self.patiently(lambda: self.job(job_id))
            if limit is not None and time.monotonic() >= limit:
                raise TimeoutError(f"job {job['id']} is still {job['state']} after {timeout_s:g} s")
            time.sleep(pauses.next_s())
            job = self.patiently(look)

    # --- logs

    def _log_path(self, job_id: str, task: str, attempt: int | str, stream: str) -> str:
        place = f"{_API}/jobs/{self._job(job_id)}/tasks/{path_part(task, 'task')}"
        return f"{place}/attempts/{path_part(str(attempt), 'attempt')}/logs/{path_part(stream, 'log')}"

    def log(
        self, job_id: str, task: str, *, attempt: int | str = "latest", stream: str = "stdout", tail: int | None = None
    ) -> bytes:
        """The bytes of one log so far; ``tail``: only its last bytes."""
        return b"".join(self.log_pieces(job_id, task, attempt=attempt, stream=stream, tail=tail))

    def log_pieces(
        self, job_id: str, task: str, *, attempt: int | str = "latest", stream: str = "stdout", tail: int | None = None
    ) -> Iterator[bytes]:
        """As ``log``, piece by piece, since a log may be large."""
        for _, data in self.log_places(job_id, task, attempt=attempt, stream=stream, tail=tail):
            yield data

    def log_places(
        self,
        job_id: str,
        task: str,
        *,
        attempt: int | str = "latest",
        stream: str = "stdout",
        tail: int | None = None,
        offset: int = 0,
    ) -> Iterator[tuple[int, bytes]]:
        """As ``log_pieces``, each with its place in the whole log; ``offset``: from this byte on."""
        params = {"tail": tail} if tail is not None else {"offset": offset} if offset else {}
        path = self._log_path(job_id, task, attempt, stream)
        with closing(self._send("GET", path, params=params, stream=True)) as response:
            _check_log(response)
            at = int(response.headers.get("x-log-offset", 0))
            try:
                for data in response.iter_bytes(_CHUNK):
                    yield at, data
                    at += len(data)
            except httpx.TransportError as error:
                raise NoService("The log broke off; ask for it again.") from error

    def log_times(
        self, job_id: str, task: str, *, attempt: int | str, stream: str, offset: int, length: int
    ) -> dict[str, Any]:
        """When so many bytes from ``offset`` on came."""
        path = self._log_path(job_id, task, attempt, stream)
        times: dict[str, Any] = read_json(
            self._send("GET", f"{path}/times", params={"offset": offset, "length": length})
        )
        return times

    def follow_log(
        self, job_id: str, task: str, *, attempt: int | str = "latest", stream: str = "stdout", offset: int = 0
    ) -> Iterator[bytes]:
        """The bytes of one log as they come, until the attempt's end.

        A connection that breaks is taken up again at the byte where it broke.
        """
        failures = 0
        path = self._log_path(job_id, task, attempt, stream)
        first = True

        def connect() -> httpx.Response:
            return self._send(
                "GET",
                path,
                params={"follow": "true", "offset": offset},
                stream=True,
                timeout=httpx.Timeout(30.0, read=None),
            )

        while True:
            try:
                response = connect() if first else self.patiently(connect)
                first = False
            except Refused as refused:
                if refused.status == 416:
                    return  # nothing behind the last byte, and it has ended
                raise
            try:
                with closing(response):
                    _check_log(response)
                    for data in response.iter_raw():
                        failures = 0
                        offset += len(data)
                        yield data
                return
            except httpx.TransportError:
                failures += 1
                if failures > 10:
                    raise NoService(f"The log broke off at byte {offset} and could not be taken up again.") from None
                time.sleep(grown_s(failures, first_s=_FIRST_PAUSE_S, most_s=_LONGEST_PAUSE_S))

    def logs_zip(self, job_id: str, target: BinaryIO) -> int:
        """Writes all logs of a job as a ZIP archive; returns its length in bytes."""
        return self._download(f"{_API}/jobs/{self._job(job_id)}/logs.zip", target)

    # --- the cluster

    def queue(self, **params: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._json("GET", "/queue", params={k: v for k, v in params.items() if v})
        return answer

    def set_scheduling(self, wanted: dict[str, str]) -> dict[str, Any]:
        """Another ``policy`` or ``discipline`` for the running queue (admins)."""
        answer: dict[str, Any] = self._json("PATCH", "/queue", json=wanted)
        return answer

    def decisions(self, job_id: str, task: str, *, limit: int = 20, before: int = 0) -> dict[str, Any]:
        """The passes that started something while the task waited, latest first."""
        path = f"/jobs/{self._job(job_id)}/tasks/{path_part(task, 'task')}/decisions"
        params = {"limit": limit, **({"before": before} if before else {})}
        answer: dict[str, Any] = self._json("GET", path, params=params)
        return answer

    def preview(self, job_file: bytes, *, media: str = "application/yaml") -> dict[str, Any]:
        """When the tasks of a job file would start, were it submitted now."""
        headers = {"Content-Type": media}
        answer: dict[str, Any] = self._json("POST", "/queue/preview", content=job_file, headers=headers)
        return answer

    def preview_variants(self, variants: list[dict[str, Any]]) -> dict[str, Any]:
        """When each of these would start, were it alone submitted now: `timeout`, `gpus` and so on as in a job file."""
        answer: dict[str, Any] = self._json("POST", "/queue/preview", json=variants)
        return answer

    def nodes(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self.node_list().rows("nodes")
        return answer

    def node_list(self) -> Answer:
        """``nodes``, each GPU with who holds it; ``gpus``, what is free; ``missing``, what can't be told now."""
        answer: Answer = self._json("GET", "/nodes")
        return answer

    def node(self, node_id: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._json("GET", f"/nodes/{path_part(node_id, 'node')}")
        return answer

    def node_usage(self, node_id: str, *, since: float = 0, until: float = 0, points: int = 500) -> Answer:
        """``points``: readings over time, at most so many. ``since`` 0: of the last hour; ``until`` 0: until now."""
        params = {"since": since, "until": until, "points": points}
        answer: Answer = self._json("GET", f"/nodes/{path_part(node_id, 'node')}/usage", params=params)
        return answer

    def node_action(self, node_id: str, action: str, note: str = "") -> dict[str, Any]:
        """``action`` is cordon, uncordon, drain or lost; admins only."""
        path = f"/nodes/{path_part(node_id, 'node')}/{action}"
        answer: dict[str, Any] = self._json("POST", path, json={"note": note})
        return answer

    def drain_node(self, node_id: str, wish: Mapping[str, Any]) -> dict[str, Any]:
        """``wish``: what ``DrainRequest`` of the API holds; admins only."""
        answer: dict[str, Any] = self._json("POST", f"/nodes/{path_part(node_id, 'node')}/drain", json=dict(wish))
        return answer

    def preview_drain(self, node_id: str) -> dict[str, Any]:
        """What emptying a machine would touch; admins only."""
        answer: dict[str, Any] = self._json("GET", f"/nodes/{path_part(node_id, 'node')}/drain")
        return answer

    def replace_node(self, node_id: str) -> None:
        """A machine was set up anew: its next worker takes the name; admins only."""
        self._send("POST", f"{_API}/nodes/{path_part(node_id, 'node')}/replace")

    def forget_node(self, node_id: str) -> None:
        """Take a machine off the list that does not answer; admins only."""
        self._send("DELETE", f"{_API}/nodes/{path_part(node_id, 'node')}")

    def return_gpu(self, node_id: str, uuid: str, *, gone: bool = False) -> dict[str, Any]:
        """Give out a GPU again that was taken out for a fault; admins only. ``gone``: forget one that was removed."""
        path = f"/nodes/{path_part(node_id, 'node')}/gpus/{path_part(uuid, 'GPU')}/return"
        answer: dict[str, Any] = self._json("POST", path, json={"gone": gone})
        return answer

    # --- the personal space

    @staticmethod
    def _file_path(path: str) -> str:
        # On its way into an address `..` would be resolved, and another call be made than the one that was meant.
        parts = [one for one in path.split("/") if one not in ("", ".")]
        if ".." in parts:
            raise InvalidInput("A path in the personal space can't go up with `..`.")
        return f"{_API}/files/" + "/".join(quote(one.encode("utf-8", "surrogateescape"), safe="") for one in parts)

    def files(self, path: str = "") -> Iterator[dict[str, Any]]:
        """Entries of a folder of the personal space, page by page."""
        cursor = ""
        while True:
            params = {"cursor": cursor} if cursor else {}
            page = read_json(self._send("GET", self._file_path(path), params=params))
            yield from page.rows("entries")
            cursor = page.get("next_cursor") or ""
            if not cursor:
                return

    def get_file(self, path: str, target: BinaryIO, progress: Any = None) -> int:
        """Writes the file's bytes to ``target``; returns how many.

        Raises:
            Conflict: it is a folder.
        """
        return self._download(self._file_path(path), target, progress, folder=path)

    def put_file(self, path: str, source: Path, progress: Any = None, *, parents: bool = False) -> dict[str, Any]:
        """Uploads a file; what was there is replaced in one step. ``parents``: missing folders are made."""

        def chunks() -> Iterator[bytes]:
            with source.open("rb") as file:
                while data := file.read(_CHUNK):
                    if progress:
                        progress(len(data))
                    yield data

        headers = {"Content-Length": str(source.stat().st_size), "Content-Type": "application/octet-stream"}
        place = self._file_path(path) + ("?parents=true" if parents else "")
        timeout = httpx.Timeout(60.0)
        answer: dict[str, Any] = read_json(
            self._send("PUT", place, content=chunks(), headers=headers, repeat=False, timeout=timeout)
        )
        return answer

    def delete_file(self, path: str, *, recursive: bool = False, permanent: bool = False) -> str:
        """Moves it to the trash; answers its id there, empty when it is gone for good."""
        params = {**({"recursive": "true"} if recursive else {}), **({"permanent": "true"} if permanent else {})}
        timeout = _REMOVAL if recursive and permanent else httpx.USE_CLIENT_DEFAULT
        response = self._send("DELETE", self._file_path(path), params=params, timeout=timeout)
        return str(response.headers.get("headway-trash-id", ""))

    def get_folder(self, path: str, target: BinaryIO, progress: Any = None) -> int:
        """Writes a folder with all that is in it as a ZIP archive; returns its length in bytes."""
        return self._download(self._file_path(path) + "?format=zip", target, progress)

    def trash(self) -> list[dict[str, Any]]:
        """What was deleted lately, and until when it can be had back."""
        items: list[dict[str, Any]] = self._json("GET", "/trash").rows("items")
        return items

    def restore(self, trash_id: str) -> dict[str, Any]:
        """Puts it back where it was."""
        path = f"/trash/{path_part(trash_id, 'item of the trash')}/restore"
        answer: dict[str, Any] = self._json("POST", path, repeat=False)
        return answer

    def empty_trash(self, trash_id: str | None = None) -> None:
        """Deletes one item of the trash for good, or all without an id. An empty id is none."""
        path = "/trash" if trash_id is None else f"/trash/{path_part(trash_id, 'item of the trash')}"
        self._json("DELETE", path, timeout=_REMOVAL)

    def space(self) -> dict[str, Any]:
        """What the personal space holds, and may hold."""
        answer: dict[str, Any] = self._json("GET", "/space")
        return answer

    def make_folder(self, path: str) -> None:
        self._send("POST", self._file_path(path), params={"op": "mkdir"})

    def move_file(self, path: str, to: str) -> None:
        self._send("POST", self._file_path(path), params={"op": "move"}, json={"to": to}, repeat=False)

    # --- users

    def users(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._json("GET", "/users").rows("users")
        return answer

    def create_user(self, **fields: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._json("POST", "/users", json=fields, repeat=False)
        return answer

    def change_user(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._json("PATCH", f"/users/{path_part(name, 'account')}", json=dict(changes))
        return answer

    def reset_password(self, name: str, *, keep_tokens: bool = False) -> str:
        """A new password that the server makes; it is answered only now."""
        body = {"keep_tokens": keep_tokens}
        path = f"/users/{path_part(name, 'account')}/password"
        return str(self._json("POST", path, json=body, repeat=False)["password"])

    def remove_user(self, name: str, *, home: str, to: str = "") -> dict[str, Any]:
        params = {"home": home, **({"to": to} if to else {})}
        answer: dict[str, Any] = self._json(
            "DELETE", f"/users/{path_part(name, 'account')}", params=params, timeout=_REMOVAL, repeat=False
        )
        return answer

    def user_tokens(self, name: str, kind: str) -> list[dict[str, Any]]:
        """``kind``: tokens or sessions."""
        answer: list[dict[str, Any]] = self._json("GET", f"/users/{path_part(name, 'account')}/{kind}").rows(kind)
        return answer

    def end_user_tokens(self, name: str, kind: str, id: str | None = None) -> int:
        """One, or all without an id; how many ended."""
        path = f"/users/{path_part(name, 'account')}/{kind}" + ("" if id is None else f"/{path_part(id, kind[:-1])}")
        answer = self._json("DELETE", path)
        return int(answer["ended"]) if answer is not None else 1

    def _download(self, path: str, target: BinaryIO, progress: Any = None, *, folder: str | None = None) -> int:
        total = 0
        with closing(self._send("GET", path, stream=True, timeout=httpx.Timeout(60.0))) as response:
            # Files come as plain bytes whatever they hold; JSON is the listing of a folder.
            if folder is not None and response.headers.get("content-type", "").startswith("application/json"):
                raise Conflict(f"`{folder or '/'}` is a folder: `headway files get -r` fetches it as a ZIP archive.")
            try:
                for data in response.iter_bytes(_CHUNK):
                    target.write(data)
                    total += len(data)
                    if progress:
                        progress(len(data))
            except httpx.TransportError as error:
                raise NoService(f"The download broke off after {total} bytes; start it again.") from error
        return total
