"""The tables between our values and the numbers of the protos are whole, and times lose nothing."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.frames import CallState
from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.executing.events import (
    COMPLETED_STATUS,
    FAILED_STATUS,
    OPERATOR,
    PARENT,
    PARENT_LOST,
    SIDECAR,
    SUB_AGENT,
)
from sidecar.core.roles import Role
from sidecar.core.rollout.decommission_facts import CleanupStep
from sidecar.core.rollout.events import GateVerdict, RolloutEventKind
from sidecar.core.rollout.serving import CandidateVerdict
from sidecar.operations.requests import OnDisconnect, TurnSource, Verdict
from sidecar.operations.turn.state.turn_ends import ENDED, ENDED_BY_OPERATOR
from sidecar.policy.kinds import PluginKind
from sidecar.policy.loading import PluginState
from sidecar.rpc.admin_servicer import PLUGIN_KIND, PLUGIN_STATE
from sidecar.rpc.translate import enums, rollout_enums
from sidecar.rpc.translate.fields import duration, timestamp
from sidecar.rpc.translate.steps import STOP_REACH
from subagents.dispatch.v1 import dispatch_pb2, outcome_pb2, surface_pb2
from subagents.errors.v1 import error_reason_pb2
from subagents_errors import Axis, CallFailure

CHILD_CLOSE_REASONS = ("integrated", "integration_failed", "execution_failed", "turn_ended")


@pytest.mark.parametrize(
    ("table", "ours", "theirs"),
    [
        (enums.CALL_STATE, CallState, dispatch_pb2.CallState),
        (enums.OUTCOME, Outcome, outcome_pb2.Outcome),
        (enums.CAP, CapBehaviour, outcome_pb2.CapBehaviour),
        (enums.CANDIDATE, CandidateVerdict, surface_pb2.CandidateVerdict),
    ],
)
def test_every_value_of_ours_has_a_number_and_no_number_is_left_over(table: Any, ours: Any, theirs: Any) -> None:
    """But UNSPECIFIED, which is never sent."""
    assert list(table) == list(ours)
    assert sorted([0, *table.values()]) == sorted(theirs.values())


@pytest.mark.parametrize(
    ("table", "ours"),
    [
        (enums.FINAL_STATUS, (COMPLETED_STATUS, FAILED_STATUS)),
        (enums.EVENT_ACTOR, (SIDECAR, PARENT, SUB_AGENT, OPERATOR)),
        (enums.TURN_CLOSE_REASON, ("", ENDED, PARENT_LOST, ENDED_BY_OPERATOR)),
        (enums.CHILD_CLOSE_REASON, (*CHILD_CLOSE_REASONS, PARENT_LOST, ENDED_BY_OPERATOR)),
        (rollout_enums.ROLLOUT_EVENT_KIND, tuple(RolloutEventKind)),
        (rollout_enums.DECOMMISSION_EVENT_KIND, ("begin", "decide", "undo", *CleanupStep)),
        (rollout_enums.ACTOR_ROLE, ("", *Role)),
        (rollout_enums.GATE_VERDICT, tuple(GateVerdict)),
        (STOP_REACH, ("replica", "flag", "record")),
        (PLUGIN_KIND, tuple(PluginKind)),
        (PLUGIN_STATE, tuple(PluginState)),
    ],
)
def test_every_word_of_the_record_has_a_number(table: Any, ours: Any) -> None:
    """A word without a number would fail the answer that holds it."""
    assert [word for word in ours if word not in table] == []
    assert [word for word in ours if word and not table[word]] == []


def test_every_reason_and_axis_of_a_call_has_a_number() -> None:
    """The enum of reasons holds those of failed RPCs too."""
    assert list(enums.REASON) == list(CallFailure)
    assert 0 not in enums.REASON.values()
    assert {axis: error_reason_pb2.FailureAxis.Name(number) for axis, number in enums.AXIS.items()} == {
        Axis.NONE: "FAILURE_AXIS_UNSPECIFIED",
        Axis.EXECUTION: "FAILURE_AXIS_EXECUTION",
        Axis.DATA: "FAILURE_AXIS_DATA",
    }


@pytest.mark.parametrize(
    ("table", "ours", "theirs", "unspecified"),
    [
        (enums.SOURCES, TurnSource, dispatch_pb2.TurnSource, None),
        (enums.ON_DISCONNECTS, OnDisconnect, dispatch_pb2.OnDisconnect, OnDisconnect.CANCEL),
        (enums.VERDICTS, Verdict, dispatch_pb2.Verdict, Verdict.AUTOMATIC),
    ],
)
def test_every_number_that_may_be_sent_has_a_value(table: Any, ours: Any, theirs: Any, unspecified: Any) -> None:
    """UNSPECIFIED means what the proto says it means, or is refused."""
    assert set(table.values()) == set(ours)
    assert table.get(0) == unspecified
    assert set(table) | {0} == set(theirs.values())


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=UTC),
        datetime(2026, 3, 1, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=-7))),
        datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC),
    ],
)
def test_a_time_keeps_its_microseconds(moment: datetime) -> None:
    """In any zone, and before 1970."""
    assert timestamp(moment).ToDatetime(UTC) == moment


@pytest.mark.parametrize("length", [timedelta(0), timedelta(microseconds=1), timedelta(days=2, microseconds=999_999)])
def test_a_duration_keeps_its_microseconds(length: timedelta) -> None:
    """From nothing to days."""
    assert duration(length).ToTimedelta() == length
