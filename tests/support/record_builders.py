"""Records as a sidecar makes them, for tests of what keeps them; everything a test does not care about is filled in."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sidecar.core.binding.cohort import Cohort
from sidecar.core.binding.surface import Candidate
from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import Answer, CallOutcome, Component, Outcome, Usage
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.executing.events import ChildEvent, ChildLog
from sidecar.core.executing.records import (
    AttemptRecorded,
    CallSettled,
    ChildOpened,
    DispatchOpened,
    DispatchTaken,
    Record,
    TurnEnded,
)
from sidecar.core.identifiers import (
    AttemptId,
    CallId,
    ChildId,
    DefinitionId,
    DispatchId,
    EpisodeId,
    Principal,
    Slot,
    TurnId,
)
from sidecar.core.rollout.serving import CandidateVerdict
from subagents_errors import Axis

BEGIN = datetime(2026, 3, 1, 12, 0, 0, 123_457, tzinfo=UTC)


OTHER_CONTENTS: Final[Mapping[type[Record], Mapping[str, Any]]] = MappingProxyType(
    {
        DispatchOpened: {"claims_json": '{"turn":"another"}'},
        DispatchTaken: {"taken_at": BEGIN},
        ChildOpened: {"context_json": "{}"},
        ChildEvent: {"summary": "something else"},
        AttemptRecorded: {"frames_json": "[]"},
        CallSettled: {"settled_at": BEGIN},
        TurnEnded: {"narration": "Something else."},
    }
)


def moment(seconds: float) -> datetime:
    """Return a time, so many seconds after a fixed one; never a whole millisecond."""
    return BEGIN + timedelta(seconds=seconds)


def a_dispatch(turn: str = "turn-1", dispatch: str = "dispatch-1", at: float = 0, **fields: Any) -> DispatchOpened:
    """Return the opening of a dispatch of one call, unless `calls` says otherwise."""
    given: dict[str, Any] = {
        "episode_id": EpisodeId("episode-1"),
        "principal": Principal("user-1"),
        "claims_json": '{"turn":"é"}',
        "request_json": '{"calls":[]}',
        "fingerprint": "f" * 64,
        "first_step": 0,
        "places": 3,
        "calls": 1,
        "intents": IntentReport(1, 1, switched=False, prior_context_missing=False),
        "cap": CapBehaviour.WITHIN,
        "opened_at": moment(at),
        "settle_by": moment(at + 100),
        "turn_expires_at": moment(at + 900),
    }
    return DispatchOpened(turn_id=TurnId(turn), dispatch_id=DispatchId(dispatch), **(given | fields))


def a_taking(opened: DispatchOpened, epoch: int = 1, at: float = 50) -> DispatchTaken:
    """Return that another sidecar takes a dispatch."""
    return DispatchTaken(opened.turn_id, opened.dispatch_id, epoch, moment(at))


def a_child(opened: DispatchOpened, step: int = 0, slot: str = "shop", **fields: Any) -> ChildOpened:
    """Return a child of a dispatch; its id says the turn and the step."""
    given: dict[str, Any] = {
        "child_id": ChildId(f"{opened.turn_id}-child-{step}"),
        "call_id": CallId(f"call-{step}"),
        "context_json": '{"parent":{"goal_summary":"ß \\u0000"}}',
        "opened_at": opened.opened_at + timedelta(milliseconds=step),
    }
    return ChildOpened(
        turn_id=opened.turn_id,
        episode_id=opened.episode_id,
        dispatch_id=opened.dispatch_id,
        slot=Slot(slot),
        step_idx=step,
        **(given | fields),
    )


def a_log(child: ChildOpened, events: Sequence[ChildEvent] = ()) -> ChildLog:
    """Return what makes the events of a child, after those there are."""
    log = ChildLog(child.child_id, child.turn_id, child.slot, child.step_idx, child.link)
    log.go_on_after(events)
    return log


def a_life(child: ChildOpened, at: float = 1, *, failed: bool = False) -> list[ChildEvent]:
    """Return all events of a child that succeeded, or failed; the last one closes it. A tenth of a second each."""
    log = a_log(child)
    events = [log.created(moment(at), "digest"), log.started(moment(at + 0.1))]
    events.append(log.attempt(moment(at + 0.2), 1, AttemptId(f"{child.child_id}-attempt-1")))
    if failed:
        events.append(log.failed(moment(at + 0.3), "runner", "it failed"))
    else:
        events += [log.waiting_for_merge(moment(at + 0.3), "succeeded"), log.integrated(moment(at + 0.4))]
    return [*events, log.closed(moment(at + 0.5), "turn_ended")]


def an_attempt(child: ChildOpened, number: int = 1) -> AttemptRecorded:
    """Return what a runner sent."""
    name = AttemptId(f"{child.child_id}-attempt-{number}")
    return AttemptRecorded(name, child.child_id, child.turn_id, child.dispatch_id, number, '["begun"]')


def an_outcome(call: str = "call-0", step: int = 0, **fields: Any) -> CallOutcome:
    """Return the outcome of a call that succeeded."""
    given: dict[str, Any] = {
        "sub_agent_id": Slot("shop"),
        "child_id": ChildId(f"child-{step}"),
        "outcome": Outcome.SUCCEEDED,
        "answer": Answer("found it", (Component("list", "{}", '{"rows":[1]}'),)),
        "attempts": 1,
        "duration": timedelta(microseconds=1_234_567),
        "usage": Usage(10, 20),
    }
    return CallOutcome(call_id=CallId(call), tool_name="ask_shop", emission_index=step, **(given | fields))


def a_settling(
    opened: DispatchOpened, outcome: CallOutcome | None = None, at: float = 2, revision: int = 0
) -> CallSettled:
    """Return that a call of a dispatch has settled."""
    return CallSettled(opened.turn_id, opened.dispatch_id, outcome or an_outcome(), moment(at), revision)


def a_turn_end(turn: str = "turn-1", at: float = 3, **fields: Any) -> TurnEnded:
    """Return the end of a turn."""
    given: dict[str, Any] = {
        "episode_id": EpisodeId("episode-1"),
        "principal": Principal("user-1"),
        "fingerprint": "e" * 64,
        "narration": "Here it is.",
        "close_reason": "turn_ended",
        "user_message": "What is new?",
    }
    return TurnEnded(turn_id=TurnId(turn), ended_at=moment(at), **(given | fields))


def a_routing(turn: str = "turn-1", slots: Sequence[str] = ("shop",), at: float = 3, **fields: Any) -> RoutingRecord:
    """Return the routing decision of a turn that called `slots`."""
    given: dict[str, Any] = {
        "episode_id": EpisodeId("episode-1"),
        "orchestrator_id": DefinitionId("concierge"),
        "candidates": (Candidate(Slot("shop"), DefinitionId("shop_v1"), CandidateVerdict.CHOSEN),),
        "calls": tuple(_routed(slot, step, at) for step, slot in enumerate(slots)),
        "intents": (IntentReport(len(slots), len(slots), switched=False, prior_context_missing=False),),
        "fan_out_cap": 3,
        "cap": CapBehaviour.WITHIN,
        "cohort": Cohort("v1", "b1", "x1", ("flag",), "", (Slot("shop"),)),
        "binding_digest": "digest",
        "bound_at": moment(at - 3),
        "ended_at": moment(at),
        "close_reason": "turn_ended",
        "overhead": timedelta(microseconds=1_501),
        "principal_asserted_by": "orchestrator",
        "gate_passed": True,
    }
    return RoutingRecord(turn_id=TurnId(turn), **(given | fields))


def a_whole_turn(turn: str = "turn-1", slots: Sequence[str] = ("shop",), at: float = 0, **of_all: Any) -> list[Record]:
    """Return everything of a turn with one dispatch that called `slots`, in order; it ends three seconds after `at`.

    `of_all`: `episode_id` or `principal`, if others are wanted.
    """
    opened = a_dispatch(turn, at=at, calls=len(slots), **of_all)
    children = [a_child(opened, step, slot) for step, slot in enumerate(slots)]
    records: list[Record] = [opened, *children]
    for step, child in enumerate(children):
        outcome = an_outcome(child.call_id, step, child_id=child.child_id, sub_agent_id=child.slot)
        records += [*a_life(child, at + 1), an_attempt(child), a_settling(opened, outcome, at + 2)]
    episode = {name: value for name, value in of_all.items() if name == "episode_id"}
    return [*records, a_turn_end(turn, at + 3, **of_all), a_routing(turn, slots, at + 3, **episode)]


def with_other_contents(record: Record) -> Record:
    """Return a record with the same id that says something else."""
    if isinstance(record, RoutingRecord):
        return a_routing(record.turn_id, ("another",), 77)
    return msgspec.structs.replace(record, **OTHER_CONTENTS[type(record)])


def _routed(slot: str, step: int, at: float) -> RoutedCall:
    return RoutedCall(
        dispatch_id=DispatchId("dispatch-1"),
        call_id=CallId(f"call-{step}"),
        sub_agent_id=Slot(slot),
        child_id=ChildId(f"child-{step}"),
        emission_index=step,
        outcome=Outcome.SUCCEEDED,
        reason=None,
        axis=Axis.NONE,
        started_at=moment(at - 2),
        settled_at=moment(at - 1),
        attempts=1,
        status_events=2,
    )
