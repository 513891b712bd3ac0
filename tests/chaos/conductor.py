"""Runs a schedule on a lab: submits, cancels, lets faults begin and end, and starts again what ends by itself."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headway.client import Client, NoService, Refused
from tests.support.machines.lab import IMAGE, Lab

from .faults import ALL, KINDS, Fault
from .journal import Journal
from .schedule import Schedule
from .workload import JobPlan

_AGAIN_S = 1.0
_LONGEST_S = 300.0  # for an answer to a submit that has to get one, once all faults are over
# "Not now", in whatever words: the call may have done its work all the same.
_NOT_NOW = (408, 409, 425, 429, 500, 502, 503, 504, 507)


@dataclass
class Sent:
    """What became of a job's submit and cancel, as its sender knows it."""

    plan: JobPlan
    job_id: str = ""
    cancel: str = "none"  # or "asked", which may have come through, or "answered"
    refused: str = ""  # an answer that nobody expected


@dataclass
class Conductor:
    """See the module."""

    lab: Lab
    schedule: Schedule
    journal: Journal
    key: str  # of this run: starts the requests' ids
    sent: dict[str, Sent] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)  # processes that ended by themselves
    booked: list[dict[str, int]] = field(default_factory=list)  # GPUs by node, at many moments

    def __post_init__(self) -> None:
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        for name in ALL:
            self._locks[f"{name}.process"] = threading.Lock()
        self._over = threading.Event()

    def run(self) -> None:
        """All of it; returns once every fault is over and every submit has its answer."""
        self.journal.began()
        lives = [self._thread(self._fault, fault) for fault in self.schedule.faults]
        lives += [self._thread(self._job, plan) for plan in self.schedule.jobs]
        beside = [self._thread(self._keep), self._thread(self._look)]
        for thread in lives:
            thread.join()
        self._over.set()
        for thread in beside:
            thread.join()

    def _thread(self, call: Callable[..., None], *arguments: Any) -> threading.Thread:
        def guarded() -> None:
            try:
                with self.lab.at_desk():
                    call(*arguments)
            except Exception as error:  # a fault of the tests themselves, told with the run's result
                self._problem(f"{call.__name__.strip('_')} {arguments}: {type(error).__name__}: {error}")

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        self.journal.note("problem", text=text)

    def _wait_until(self, at_s: float) -> None:
        time.sleep(max(0.0, at_s - self.journal.now_s()))

    # --- faults

    def _fault(self, fault: Fault) -> None:
        kind = KINDS[fault.kind]
        self._wait_until(fault.begins_s)
        held = [self._locks[part] for part in sorted(fault.parts)]
        for lock in held:
            lock.acquire()
        try:
            facts = {"fault": fault.kind, "where": fault.where, "detail": fault.detail}
            self.journal.note("begins", **facts)
            try:
                kind.begin(self.lab, fault)
                self._wait_until(max(fault.ends_s, self.journal.now_s() + 0.2))
            finally:
                self.journal.note("ends", **facts)
                kind.end(self.lab, fault)
            self.journal.note("over", **facts)
        finally:
            for lock in reversed(held):
                lock.release()

    def _keep(self) -> None:
        """Starts services that ended by themselves, as systemd does."""
        while not self._over.wait(0.3):
            for name in ALL:
                lock = self._locks[f"{name}.process"]
                if not lock.acquire(blocking=False):
                    continue
                try:
                    process = self.lab.machines[name].processes.get("headway")
                    code = process.poll() if process is not None else None
                    if code is None:
                        continue
                    self.deaths.append(f"{name} ended by itself with {code} at {self.journal.now_s():.1f} s")
                    self.journal.note("ended by itself", where=name, code=code)
                    self.lab.machines[name].kill9("headway")
                    time.sleep(_AGAIN_S)
                    self.lab.start_service(name)
                finally:
                    lock.release()

    # --- load

    def _job(self, plan: JobPlan) -> None:
        sent = self.sent[plan.name] = Sent(plan)
        self._wait_until(plan.submit_at_s)
        with self.lab.new_client(timeout_s=10, tries=1) as client:
            self._submit(client, sent)
            if plan.cancel_at_s is not None and sent.job_id:
                self._wait_until(plan.cancel_at_s)
                self._cancel(client, sent)

    def _submit(self, client: Client, sent: Sent) -> None:
        plan = sent.plan
        give_up_at_s = self.schedule.seconds + _LONGEST_S
        while True:
            try:
                answer = client.submit(plan.file(IMAGE), request_id=f"{self.key}-{plan.name}")
                sent.job_id = str(answer["id"])
                self.journal.note("submitted", job=plan.name, id=sent.job_id)
                return
            except NoService as error:
                told = str(error)
            except Refused as error:
                told = f"{error.status} {error}"
                if error.status not in _NOT_NOW or error.status == 500:
                    sent.refused = told
                    self.journal.note("refused", job=plan.name, told=told)
                    return
            self.journal.note("no answer to a submit", job=plan.name, told=told[:300])
            if not plan.sure:
                return
            if self.journal.now_s() > give_up_at_s:
                sent.refused = f"no answer within {_LONGEST_S:g} s after the last fault: {told}"
                return
            time.sleep(_AGAIN_S)

    def _cancel(self, client: Client, sent: Sent) -> None:
        try:
            sent.cancel = "asked"
            client.act("cancel", sent.job_id)
            sent.cancel = "answered"
        except (NoService, Refused) as error:
            self.journal.note("no answer to a cancel", job=sent.plan.name, told=str(error)[:300])
            return
        self.journal.note("cancelled", job=sent.plan.name)

    def _look(self) -> None:
        """How many GPUs of each node are booked, as the API tells it again and again."""
        with self.lab.new_client(timeout_s=5, tries=1) as client:
            while not self._over.wait(0.5):
                try:
                    nodes = client.nodes()
                except (NoService, Refused):
                    continue
                self.booked.append({node["id"]: node["booked"]["gpus"] for node in nodes if node.get("booked")})
