"""The arm of a call: which of an experiment's definitions served it."""

from datetime import UTC, datetime, timedelta

import pytest

from sidecar.core.binding.cohort import Cohort
from sidecar.core.binding.surface import Candidate
from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.identifiers import DefinitionId, EpisodeId, Slot, TurnId
from sidecar.core.rollout.serving import CandidateVerdict

NOW = datetime(2026, 3, 1, tzinfo=UTC)
VERDICTS = {"shop": CandidateVerdict.CHOSEN, "stale": CandidateVerdict.FLAG_STALE, "news": CandidateVerdict.RAMP}


def a_record(assignment: str) -> RoutingRecord:
    """Return the routing decision of a turn without calls."""
    return RoutingRecord(
        turn_id=TurnId("turn-1"),
        episode_id=EpisodeId("episode-1"),
        orchestrator_id=DefinitionId("main"),
        candidates=tuple(Candidate(Slot(slot), DefinitionId(slot), verdict) for slot, verdict in VERDICTS.items()),
        calls=(),
        intents=(),
        fan_out_cap=2,
        cap=CapBehaviour.WITHIN,
        cohort=Cohort("1", "1", "1", (), assignment, ()),
        binding_digest="sha256:0",
        bound_at=NOW,
        ended_at=NOW,
        close_reason="ended",
        overhead=timedelta(0),
        principal_asserted_by="orchestrator",
        gate_passed=True,
    )


@pytest.mark.parametrize(
    ("assignment", "slot", "arm"),
    [
        ("", "shop", "active"),
        ("treatment", "stale", "active"),
        ("treatment", "unknown", "active"),
        ("treatment", "news", "target"),
        ("control", "news", "control"),
        ("control", "shop", "control"),
        ("treatment", None, ""),
        ("control", None, ""),
    ],
)
def test_the_arm_of_a_call_is_that_of_its_slot_in_this_turn(assignment: str, slot: str | None, arm: str) -> None:
    """The caller chooses the control arm; the target serves users outside the active definition's ramp."""
    assert a_record(assignment).arm_of(None if slot is None else Slot(slot)) == arm
