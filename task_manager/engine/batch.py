"""One batch of events: each goes to the module that decides about it; then one pass runs if it is needed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from headway.errors import HeadwayError
from headway.ids import AttemptId, TaskId

from . import extension, late_warnings, leases, node_events, queue_pass, reports
from .commands import on_command
from .comparing import comparison
from .events import (
    AttemptReports,
    EnqueueTask,
    Event,
    ExtendTask,
    HeartbeatReceived,
    LaunchesAnswered,
    MendTasks,
    NodeDeclaredLost,
    NodesChanged,
    NodesUnknown,
    ServicesAgree,
    SetScheduling,
    StopPlanned,
    StopsDelivered,
    TaskCommands,
    TimePassed,
)
from .scheduling_commands import on_set_scheduling, save_policy_state, save_policy_state_if_due
from .state import EngineState
from .turn import Turn

# Ends are applied before arrivals, so that the pass can use what they free.
_RANK: dict[type, int] = {AttemptReports: 0, LaunchesAnswered: 0, StopsDelivered: 0, TaskCommands: 2}


def apply(turn: Turn, events: Sequence[Event]) -> list[Any]:
    """Applies a batch and runs one pass; the answers are in the order of the events. It changes nothing but the state.

    The answer to a refused event is its error; the other events take effect.
    """
    state = turn.state
    state.end_pauses()
    answers: list[Any] = [None] * len(events)
    for index in sorted(range(len(events)), key=lambda i: _RANK.get(type(events[i]), 1)):
        try:
            answers[index] = _apply_one(turn, events[index])
        except HeadwayError as error:
            answers[index] = error
    if state.pass_needed:
        began_s = time.perf_counter()
        queue_pass.run_pass(turn)
        turn.pass_s = time.perf_counter() - began_s
    elif state.rough_due:
        queue_pass.update_rough_estimates(turn)
    return answers


def _apply_one(turn: Turn, event: Event) -> Any:
    match event:
        case TaskCommands():
            for command in event.commands:
                on_command(turn, command)
        case AttemptReports():
            discard = [r.attempt for r in event.reports if reports.on_report(turn, r)]
            for told in event.late_warnings:
                late_warnings.on_late_warnings(turn, told)
            return discard
        case HeartbeatReceived():
            return reports.on_heartbeat(turn, event)
        case LaunchesAnswered():
            reports.on_launches_answered(turn, event)
        case StopsDelivered():
            reports.on_stops_delivered(turn, event)
        case NodesChanged():
            node_events.on_nodes_changed(turn, event)
        case NodesUnknown():
            turn.state.nodes_live = False
        case ExtendTask():
            return extension.on_extend(turn, event)
        case NodeDeclaredLost():
            return node_events.on_node_declared_lost(turn, event.node_id, event.by)
        case SetScheduling() if turn.scheduling_choice is not None:
            on_set_scheduling(turn, turn.scheduling_choice, event)
        case MendTasks():
            return comparison.on_mend(turn, event)
        case ServicesAgree():
            turn.state.gates.agreed = True
            turn.open_gates()
        case TimePassed():
            node_events.on_time_passed(turn)
            if turn.scheduling_choice is not None:
                save_policy_state_if_due(turn, turn.scheduling_choice)
        case StopPlanned():
            turn.planned_stop = True
            if turn.scheduling_choice is not None:
                save_policy_state(turn, turn.scheduling_choice)
            for node_id, lease in list(turn.state.leases.items()):
                turn.state.put_lease(node_id, leases.suspend(lease))
    return None


def late_attempts(state: EngineState, events: Sequence[Event]) -> set[AttemptId]:
    """Attempts that the batch names and that are not live: the database says whether they are known."""
    late = set()
    for event in events:
        match event:
            case AttemptReports():
                late |= {
                    report.attempt
                    for report in event.reports
                    if reports.may_count_late(state.tasks.get(report.attempt.task), report)
                }
                late |= {told.attempt for told in event.late_warnings if state.attempt(told.attempt) is None}
            case HeartbeatReceived():
                late |= {attempt_id for attempt_id in event.live if state.attempt(attempt_id) is None}
    return late


def named_tasks(events: Sequence[Event]) -> Iterable[TaskId]:
    for event in events:
        match event:
            case TaskCommands():
                for command in event.commands:
                    # Only a command to enqueue needs the database: the others are about tasks that are in memory.
                    if isinstance(command, EnqueueTask):
                        yield command.task.id
            case AttemptReports():
                for report in event.reports:
                    yield report.attempt.task
            case HeartbeatReceived():
                for attempt_id in event.live:
                    yield attempt_id.task
            case MendTasks():
                for held in event.tasks:
                    yield held.id
            case ExtendTask():
                yield event.task_id
