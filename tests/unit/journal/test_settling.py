"""Outcomes of calls and the end of a turn, as parts of facts, field by field."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from sidecar.core.binding.cohort import Cohort
from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import Answer, CallOutcome, Outcome, Usage
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.identifiers import AttemptId, CallId, ChildId, DefinitionId, DispatchId, EpisodeId, Slot, TurnId
from sidecar.core.journal.entries import AttemptFrames
from sidecar.core.journal.facts import Intents, Routed, Routing, Settlement
from sidecar.core.journal.making.settling import SettledCall, rest_of, settled_call
from sidecar.core.journal.texts import OutcomeTexts
from subagents_errors import Axis

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
TURN, D1, D2 = TurnId("t"), DispatchId("d1"), DispatchId("d2")
TOOK = timedelta(milliseconds=1.5)
FRAMES = (AttemptFrames(TURN, AttemptId("a"), 0, 1, b"frames"),)


def an_outcome(usage: Usage | None = None, child: str | None = "k1") -> CallOutcome:
    """Return what a call came to."""
    return CallOutcome(
        call_id=CallId("c"),
        tool_name="ask_shop",
        sub_agent_id=Slot("shop"),
        child_id=None if child is None else ChildId(child),
        emission_index=4,
        outcome=Outcome.SUCCEEDED,
        answer=Answer("two shirts"),
        attempts=2,
        duration=TOOK,
        usage=usage,
        hint="ask for a size",
    )


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, None),
        (Usage(3, 4), (3, 4)),
        (Usage(3, 4, 2), (3, 4, 2)),
        (Usage(3, 4, cost=9), (3, 4, -1, 9)),
        (Usage(3, 4, 2, 9), (3, 4, 2, 9)),
        (Usage(3, 4, 0, 0), (3, 4, 0, 0)),
    ],
)
def test_an_outcome_is_on_record_with_what_it_used(usage: Usage | None, tokens: tuple[int, ...] | None) -> None:
    """What was not told is left out, or -1 in front of a cost. Times are whole microseconds."""
    settled = settled_call(an_outcome(usage), 1, frames=FRAMES)
    call = Settlement(1, Outcome.SUCCEEDED, None, ran=True, attempts=2, took=1500, tokens=tokens)
    assert settled == SettledCall(call, OutcomeTexts("two shirts", (), False, "ask for a size"), frames=FRAMES)
    assert type(settled.call.took) is int


def test_a_call_without_a_child_names_its_sub_agent() -> None:
    """A child's start names it already."""
    assert settled_call(an_outcome(child=None), 0).call.slot == "shop"
    assert settled_call(an_outcome(), 0).call.slot is None


def a_decision(intents: tuple[IntentReport, ...], digest: str = "sha256:b") -> RoutingRecord:
    """Return the routing decision of a turn with one call that started, and one that did not."""
    calls = [
        RoutedCall(
            dispatch_id=D1,
            call_id=CallId(f"c{step}"),
            sub_agent_id=None,
            child_id=None,
            emission_index=step,
            outcome=Outcome.SUCCEEDED,
            reason=None,
            axis=Axis.NONE,
            started_at=started_at,
            settled_at=NOW - TOOK,
            attempts=1,
            status_events=5 + step,
        )
        for step, started_at in enumerate((NOW - 3 * TOOK, None))
    ]
    return RoutingRecord(
        turn_id=TURN,
        episode_id=EpisodeId("e"),
        orchestrator_id=DefinitionId("concierge"),
        candidates=(),
        calls=tuple(calls),
        intents=intents,
        fan_out_cap=3,
        cap=CapBehaviour.WITHIN,
        cohort=Cohort("d-1", "b-1", "c-1", (), "", ()),
        binding_digest=digest,
        bound_at=NOW - timedelta(minutes=1),
        ended_at=NOW,
        close_reason="ended",
        overhead=2 * TOOK,
        principal_asserted_by="orchestrator",
        gate_passed=True,
    )


DISPATCHED = IntentReport(declared=2, emitted=2, switched=False, prior_context_missing=False)
UNDISPATCHED = IntentReport(declared=3, emitted=0, switched=True, prior_context_missing=True)
PLACES = {D1: {CallId("c0"): 0, CallId("c1"): 1}}


@pytest.mark.parametrize(
    ("intents", "told"),
    [((DISPATCHED,), None), ((DISPATCHED, UNDISPATCHED), Intents(3, 0, switched=True, prior_context_missing=True))],
)
@pytest.mark.parametrize(("first", "kept"), [("sha256:b", ""), ("sha256:a", "sha256:b"), ("", "sha256:b")])
def test_the_end_says_only_what_no_other_fact_says(
    intents: tuple[IntentReport, ...], told: Intents | None, first: str, kept: str
) -> None:
    """Times before the end in whole microseconds, intents of a response without calls, a digest that differs."""
    calls = (Routed(D1, 0, -1500, -4500, 5), Routed(D1, 1, -1500, None, 6))
    expected = Routing(calls, 3000, "orchestrator", True, told, kept)
    rest = rest_of(a_decision(intents), PLACES, first)
    assert msgspec.json.encode(rest) == msgspec.json.encode(expected)  # 1500.0 equals 1500, and is another text
