"""Asks a running Headway steadily, in a process of its own, and writes down how long each answer took.

    python -m benchmarks.asking TARGET.json < pipe        # until the pipe closes

Each question is sent when it is due, whether earlier ones are answered or not. A wait counts from the moment when the
question was due. Otherwise one slow answer would delay the next questions and hide how long they waited.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx

from headway.rpc.errors_map import TOKEN_KEY
from headway.rpc.v1 import common_pb2
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.rpc.v1.task_manager_pb2_grpc import TaskManagerStub

_PATIENCE_S = 30.0
_ECHO = "/headway.benchmark/Echo"
_VARIANTS = [{"timeout": timeout, "gpus": gpus} for timeout in ("10m", "1h", "1d") for gpus in (1, 2)]


def _as_is(message: bytes) -> bytes:
    return message


@dataclass(frozen=True, slots=True)
class Answer:
    """``due_s`` by `time.monotonic`."""

    question: str
    due_s: float
    took_s: float
    failure: str


def read(path: Path, since_s: float, until_s: float) -> dict[str, list[Answer]]:
    """By question, those that were due between these moments."""
    found: dict[str, list[Answer]] = {}
    for line in path.read_text().splitlines():
        question, due_s, took_s, failure = json.loads(line)
        if since_s <= due_s <= until_s:
            found.setdefault(question, []).append(Answer(question, due_s, took_s, failure))
    return found


class Asker:
    """All questions; a waiting task and its job are taken from what the queue said last."""

    def __init__(self, target: Mapping[str, str]) -> None:
        self._out = Path(target["answers"]).open("w", buffering=1)  # noqa: SIM115  as long as the process
        self._metadata = ((TOKEN_KEY, target["token"]),)
        self._channel = grpc.aio.insecure_channel(target["task_manager"])
        self._stub: Any = TaskManagerStub(self._channel)  # type: ignore[no-untyped-call]
        self._echo = grpc.aio.insecure_channel(target["echo"]).unary_unary(_ECHO, _as_is, _as_is)
        self._http = httpx.AsyncClient(
            base_url=f"{target['url']}/api/v1",
            headers={"Authorization": f"Bearer {target['user_token']}"},
            timeout=_PATIENCE_S,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=50),
        )
        self._task = common_pb2.Task(job_id="j0000000000000001", name="t0")
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until standard input closes."""
        gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), gone.set)  # nobody writes into it
        every: dict[str, tuple[float, Callable[[], Awaitable[Any]]]] = {
            "bare echo": (20, lambda: self._echo(b"", timeout=_PATIENCE_S)),
            "CheckResources": (10, self._check),
            "ExplainTask": (10, self._explain),
            "GetQueue of 100": (5, lambda: self._queue(100)),
            "GetQueue of 1000": (0.5, lambda: self._queue(1000)),
            "GET /queue": (3, lambda: self._get("/queue")),
            "GET a task": (3, lambda: self._get(f"/jobs/{self._task.job_id}/tasks/{self._task.name}")),
            "GET a job": (0.1, lambda: self._get(f"/jobs/{self._task.job_id}?tasks_limit=100")),
            "POST /queue/preview": (0.5, self._preview),
        }
        asking = [
            asyncio.create_task(self._steadily(name, 1 / rate, number / 97, ask))
            for number, (name, (rate, ask)) in enumerate(every.items())
        ]
        await gone.wait()
        for task in asking:
            task.cancel()
        await asyncio.wait([*asking, *self._running])

    async def _steadily(self, name: str, every_s: float, first_s: float, ask: Callable[[], Awaitable[Any]]) -> None:
        due_s = time.monotonic() + first_s
        while True:
            await asyncio.sleep(due_s - time.monotonic())
            one = asyncio.create_task(self._one(name, due_s, ask))
            self._running.add(one)
            one.add_done_callback(self._running.discard)
            due_s += every_s

    async def _one(self, name: str, due_s: float, ask: Callable[[], Awaitable[Any]]) -> None:
        failure = ""
        try:
            await ask()
        except grpc.aio.AioRpcError as error:
            failure = "" if error.code() is grpc.StatusCode.NOT_FOUND else error.code().name
        except Exception as error:
            failure = repr(error)
        self._out.write(json.dumps([name, due_s, time.monotonic() - due_s, failure]) + "\n")

    async def _check(self) -> None:
        request = tm.CheckResourcesRequest()
        for gpus in (0, 1, 8):
            resources = common_pb2.Resources(cpu_centi=100, memory_bytes=1 << 30, gpus=gpus)
            request.shapes.add(resources=resources, timeout_s=600)
        await self._stub.CheckResources(request, metadata=self._metadata, timeout=_PATIENCE_S)

    async def _explain(self) -> None:
        request = tm.ExplainTaskRequest(task=self._task)
        await self._stub.ExplainTask(request, metadata=self._metadata, timeout=_PATIENCE_S)

    async def _queue(self, limit: int) -> None:
        reply = await self._stub.GetQueue(tm.GetQueueRequest(limit=limit), metadata=self._metadata, timeout=_PATIENCE_S)
        if reply.entries:
            self._task = reply.entries[-1].task

    async def _get(self, path: str) -> None:
        answer = await self._http.get(path)
        if answer.status_code != 404:  # it may have ended since, or there is none yet
            answer.raise_for_status()

    async def _preview(self) -> None:
        (await self._http.post("/queue/preview", json=_VARIANTS)).raise_for_status()


async def ask(target: Mapping[str, str]) -> None:
    """Until standard input closes."""
    await Asker(target).run()


async def echo() -> None:
    """The least that a gRPC server can be; prints its port."""

    async def answer(request: bytes, context: Any) -> bytes:
        return request

    service, _, method = _ECHO.removeprefix("/").partition("/")
    server = grpc.aio.server()
    handlers = {method: grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    if sys.argv[1] == "echo":
        asyncio.run(echo())
    else:
        asyncio.run(ask(json.loads(Path(sys.argv[1]).read_text())))
