"""Records as a sidecar makes them, for tests of what keeps them; everything a test does not care about is filled in."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import Answer, CallOutcome, Component, Outcome, Usage
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import (
    AttemptRecorded,
    CallSettled,
    ChildOpened,
    DispatchOpened,
    DispatchTaken,
    Record,
    TurnEnded,
)
from sidecar.core.identifiers import AttemptId, CallId, ChildId, DispatchId, InstanceId, Slot, TurnId
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import Routed, Routing
from sidecar.core.journal.facts import TurnEnded as JournalTurnEnded
from sidecar.core.journal.opening.claims import unnamed
from sidecar.core.journal.opening.requests import fingerprint_of
from sidecar.core.journal.texts import EndTexts, Texts
from sidecar.core.journal.turn_projection import TurnProjection
from sidecar.core.replaying.frames import Narration, RecordedAttempt, attempt_to_json
from tests.support.journal_drafts import DIGEST, a_contract, a_request, some_claims
from tests.support.recording.drafting import Drafting
from tests.support.recording.event_log import EventLog

BEGIN = datetime(2026, 3, 1, 12, 0, 0, 123_457, tzinfo=UTC)
FRAMES: Final = attempt_to_json(RecordedAttempt(frames=(Narration(5, "found "), Narration(9, "it"))))

OTHER_CONTENTS: Final[Mapping[type[Record], Mapping[str, Any]]] = MappingProxyType(
    {
        DispatchOpened: {"places": 2},
        DispatchTaken: {"taken_at": BEGIN},
        ChildOpened: {"slot": Slot("another")},
        ChildEvent: {"time": BEGIN - timedelta(seconds=1)},
        CallSettled: {"settled_at": BEGIN},
        TurnEnded: {"narration": "Something else."},
    }
)


def moment(seconds: float) -> datetime:
    """Return a time, so many seconds after a fixed one; never a whole millisecond."""
    return BEGIN + timedelta(seconds=seconds)


def the_claims(turn: str = "turn-1", at: float = 0, **fields: Any) -> SurfaceClaims:
    """Return what a turn was bound to."""
    return some_claims(turn, bound_at=moment(at), expires_at=moment(at + 900), **fields)


def a_dispatch(
    turn: str = "turn-1",
    dispatch: str = "dispatch-1",
    at: float = 0,
    slots: Sequence[str] = ("shop",),
    first_step: int = 0,
    claims: SurfaceClaims | None = None,
    **fields: Any,
) -> DispatchOpened:
    """Return the opening of a dispatch that asks `slots`, one call each; call ids are those of their steps."""
    claims = claims or the_claims(turn, at)
    asked = a_request(dispatch, slots)
    calls = tuple(
        msgspec.structs.replace(call, call_id=CallId(f"call-{step}"))
        for step, call in enumerate(asked.calls, first_step)
    )
    request_json = msgspec.structs.replace(asked, calls=calls).to_json()
    given: dict[str, Any] = {
        "episode_id": claims.episode_id,
        "principal": claims.principal,
        "claims_json": msgspec.json.encode(claims).decode(),
        "request_json": request_json,
        "fingerprint": fingerprint_of(request_json),
        "first_step": first_step,
        "places": 3,
        "calls": len(slots),
        "intents": IntentReport(1, 1, switched=False, prior_context_missing=False),
        "cap": CapBehaviour.WITHIN,
        "opened_at": moment(at),
        "settle_by": moment(at + 100),
        "turn_expires_at": claims.expires_at,
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
        "context_json": a_contract(opened.turn_id, slot, step, goal_summary="ß \0").to_json(),
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


def a_log(child: ChildOpened, events: Sequence[ChildEvent] = ()) -> EventLog:
    """Return what makes the events of a child, after those there are."""
    log = EventLog(child.child_id, child.turn_id, child.slot, child.step_idx, child.link)
    log.go_on_after(events)
    return log


def a_life(child: ChildOpened, at: float = 1, *, failed: bool = False) -> list[ChildEvent]:
    """Return all events of a child that succeeded, or failed; the last one closes it. A tenth of a second each."""
    log = a_log(child)
    events = [log.created(child.opened_at, DIGEST), log.started(child.opened_at)]
    events.append(log.attempt(moment(at + 0.2), 1, AttemptId(f"{child.child_id}-attempt-1")))
    if failed:
        events.append(log.failed(moment(at + 0.3), "runner_failed", "failed: runner_failed", detail="it raised"))
    else:
        said = {"components": 1, "data_unavailable": False, "input_tokens": 10, "output_tokens": 20}
        events += [log.waiting_for_merge(moment(at + 0.3), "succeeded", **said), log.integrated(moment(at + 0.4))]
    return [*events, log.closed(moment(at + 0.5), "turn_ended")]


def an_attempt(child: ChildOpened, number: int = 1) -> AttemptRecorded:
    """Return what a runner sent."""
    name = AttemptId(f"{child.child_id}-attempt-{number}")
    return AttemptRecorded(name, child.child_id, child.turn_id, child.dispatch_id, number, FRAMES)


def an_outcome(turn: str = "turn-1", step: int = 0, slot: str = "shop", **fields: Any) -> CallOutcome:
    """Return the outcome of a call that succeeded, of the child that `a_child` returns."""
    given: dict[str, Any] = {
        "sub_agent_id": Slot(slot),
        "child_id": ChildId(f"{turn}-child-{step}"),
        "outcome": Outcome.SUCCEEDED,
        "answer": Answer("found it", (Component("list", "{}", '{"rows":[1]}'),)),
        "attempts": 1,
        "duration": timedelta(microseconds=1_234_567),
        "usage": Usage(10, 20),
    }
    return CallOutcome(call_id=CallId(f"call-{step}"), tool_name=f"ask_{slot}", emission_index=step, **(given | fields))


def a_settling(
    opened: DispatchOpened, outcome: CallOutcome | None = None, at: float = 2, revision: int = 0
) -> CallSettled:
    """Return that a call of a dispatch has settled."""
    outcome = outcome or an_outcome(opened.turn_id)
    return CallSettled(opened.turn_id, opened.dispatch_id, outcome, moment(at), revision)


def an_end(
    before: Sequence[Record] = (),
    turn: str = "turn-1",
    at: float = 3,
    claims: SurfaceClaims | None = None,
    **texts: str,
) -> list[Record]:
    """Return the end of a turn with its routing decision, as they come after all of its records `before`.

    `texts`: `narration`, `user_message`, `fingerprint` or `close_reason`, if others are wanted.
    """
    reading, by = TurnProjection(TurnId(turn)), InstanceId("one")
    for drafted in Drafting(reading, by).drafts(before):
        reading.take(drafted.draft)
    claims = claims or reading.claims or the_claims(turn, at - 3)
    told = [each for each in before if isinstance(each, CallSettled)]
    calls = tuple(Routed(each.dispatch_id, 0, -1_000_000, -2_000_000, 2) for each in told)
    first = {each.dispatch_id: each.first_step for each in before if isinstance(each, DispatchOpened)}
    calls = tuple(
        msgspec.structs.replace(call, place=each.outcome.emission_index - first[each.dispatch_id])
        for call, each in zip(calls, told, strict=True)
    )
    parts = unnamed(claims)
    said = {"fingerprint": "e" * 64, "narration": "Here it is.", "user_message": "What is new?"} | texts
    body = JournalTurnEnded(
        claims=None if reading.claims == claims else parts.claims,
        close_reason=said.pop("close_reason", "turn_ended"),
        routing=Routing(calls, 1_501, "orchestrator", gate_passed=True, binding_digest="" if first else "digest"),
    )
    end = Texts(user=parts.user, end=EndTexts(**said))
    return reading.take(Draft(TurnId(turn), by, moment(at), body, end))


def a_whole_turn(turn: str = "turn-1", slots: Sequence[str] = ("shop",), at: float = 0, **of_all: Any) -> list[Record]:
    """Return everything of a turn with one dispatch that called `slots`, in order; it ends three seconds after `at`.

    `of_all`: `episode_id` or `principal`, if others are wanted.
    """
    opened = a_dispatch(turn, at=at, slots=slots, claims=the_claims(turn, at, **of_all))
    children = [a_child(opened, step, slot) for step, slot in enumerate(slots)]
    records: list[Record] = [opened, *children]
    for step, child in enumerate(children):
        outcome = an_outcome(turn, step, child.slot)
        records += [*a_life(child, at + 1), an_attempt(child), a_settling(opened, outcome, at + 2)]
    return [*records, *an_end(records, turn, at + 3)]


def with_other_contents(record: Record) -> Record:
    """Return a record with the same id that says something else."""
    if isinstance(record, RoutingRecord):
        return msgspec.structs.replace(record, overhead=timedelta(seconds=7))
    return msgspec.structs.replace(record, **OTHER_CONTENTS[type(record)])
