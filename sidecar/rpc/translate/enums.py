"""Maps the enums of the protos to the sidecar's enums and back. A test checks that each table is complete.

A table made by `numbers_of` or `numbers_by_word` maps the sidecar's values to the proto's numbers. A table made by
`values_of` maps them back.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.frames import CallState
from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.dispatching.questions import Answerer, Decision, QuestionKind
from sidecar.core.executing.events import SUB_AGENT
from sidecar.core.executing.stored_record import TurnState
from sidecar.core.history.compaction import CompactionDue
from sidecar.core.rollout.serving import CandidateVerdict
from sidecar.operations.history.read_history import EpisodeView
from sidecar.operations.requests import OnDisconnect, TurnSource, Verdict
from subagents.dispatch.v1 import dispatch_pb2, outcome_pb2, question_pb2, surface_pb2
from subagents.errors.v1 import error_reason_pb2
from subagents.history.v1 import history_pb2, record_pb2
from subagents_errors import Axis, CallFailure

Ours = TypeVar("Ours", bound=Enum)


def names_of(enum: Any) -> dict[int, str]:
    """Return the names of a proto enum by number."""
    return {number: name for name, number in enum.items()}


def numbers_of(enum: Any, prefix: str, ours: Iterable[Ours]) -> dict[Ours, Any]:
    """Pair the sidecar's values with the proto's by name: `over` is `<PREFIX>_OVER`."""
    return {value: enum.Value(f"{prefix}_{value.name}") for value in ours}


def numbers_by_word(enum: Any, prefix: str) -> Mapping[str, Any]:
    """Pair words with the proto's names: `parent_lost` with `<PREFIX>_PARENT_LOST`, the empty word with 0."""
    names = {name.removeprefix(f"{prefix}_").lower(): number for name, number in enum.items()}
    return {"": 0, **names}


def values_of(numbers: Mapping[Ours, int]) -> dict[int, Ours]:
    """Return the sidecar's values by number."""
    return {number: value for value, number in numbers.items()}


SOURCES: Final = values_of(numbers_of(dispatch_pb2.TurnSource, "TURN_SOURCE", TurnSource))
# A table contains the proto's `..._UNSPECIFIED` only if this value has a default: the meaning that it had for clients
# of the first version.
ON_DISCONNECTS: Final = {
    dispatch_pb2.ON_DISCONNECT_UNSPECIFIED: OnDisconnect.CANCEL,
    **values_of(numbers_of(dispatch_pb2.OnDisconnect, "ON_DISCONNECT", OnDisconnect)),
}
VERDICTS: Final[Mapping[int, Verdict]] = {
    dispatch_pb2.VERDICT_UNSPECIFIED: Verdict.AUTOMATIC,
    dispatch_pb2.VERDICT_ACCEPTED: Verdict.ACCEPTED,
    dispatch_pb2.VERDICT_REJECTED: Verdict.REJECTED,
}
QUESTION_KIND: Final = numbers_of(question_pb2.QuestionKind, "QUESTION_KIND", QuestionKind)
ANSWERER: Final = numbers_of(question_pb2.Answerer, "ANSWERER", Answerer)
ANSWERED_BY: Final[Mapping[int, Answerer]] = values_of(ANSWERER)
"""Who answered a question. Unspecified is refused: the model could otherwise approve in the name of a user."""
DECISIONS: Final[Mapping[int, Decision | None]] = {
    question_pb2.DECISION_UNSPECIFIED: None,
    **values_of(numbers_of(question_pb2.Decision, "DECISION", Decision)),
}
EPISODE_VIEWS: Final = {
    history_pb2.EPISODE_VIEW_UNSPECIFIED: EpisodeView.NARRATION,
    **values_of(numbers_of(history_pb2.EpisodeView, "EPISODE_VIEW", EpisodeView)),
}
TURN_STATE: Final = numbers_of(record_pb2.TurnState, "TURN_STATE", TurnState)
TURN_STATES: Final[Mapping[int, TurnState | None]] = {
    record_pb2.TURN_STATE_UNSPECIFIED: None,
    **values_of(TURN_STATE),
}
"""As a filter: unspecified means any."""

COMPACTION_DUE: Final = numbers_of(dispatch_pb2.CompactionDue, "COMPACTION_DUE", CompactionDue)
CALL_STATE: Final = numbers_of(dispatch_pb2.CallState, "CALL_STATE", CallState)
OUTCOME: Final = numbers_of(outcome_pb2.Outcome, "OUTCOME", Outcome)
OUTCOMES_ASKED: Final[Mapping[int, Outcome | None]] = {outcome_pb2.OUTCOME_UNSPECIFIED: None, **values_of(OUTCOME)}
"""As a filter: unspecified means any."""
CAP: Final = numbers_of(outcome_pb2.CapBehaviour, "CAP_BEHAVIOUR", CapBehaviour)
CANDIDATE: Final = numbers_of(surface_pb2.CandidateVerdict, "CANDIDATE_VERDICT", CandidateVerdict)
REASON: Final = numbers_of(error_reason_pb2.ErrorReason, "ERROR_REASON", CallFailure)
REASONS_ASKED: Final[Mapping[int, CallFailure | None]] = {
    error_reason_pb2.ERROR_REASON_UNSPECIFIED: None,
    **values_of(REASON),
}
"""As a filter: unspecified means any. Reasons that no call can have are refused."""
AXIS: Final[Mapping[Axis, Any]] = {
    Axis.NONE: error_reason_pb2.FAILURE_AXIS_UNSPECIFIED,
    Axis.EXECUTION: error_reason_pb2.FAILURE_AXIS_EXECUTION,
    Axis.DATA: error_reason_pb2.FAILURE_AXIS_DATA,
}
FINAL_STATUS: Final = numbers_by_word(outcome_pb2.FinalStatus, "FINAL_STATUS")
CHILD_CLOSE_REASON: Final = numbers_by_word(outcome_pb2.ChildCloseReason, "CHILD_CLOSE_REASON")
TURN_CLOSE_REASON: Final = numbers_by_word(outcome_pb2.TurnCloseReason, "TURN_CLOSE_REASON")
EVENT_ACTOR: Final = {
    # The recorded word `sub-agent` has a hyphen, which a name of a proto cannot have.
    **numbers_by_word(record_pb2.EventActor, "EVENT_ACTOR"),
    SUB_AGENT: record_pb2.EVENT_ACTOR_SUB_AGENT,
}
