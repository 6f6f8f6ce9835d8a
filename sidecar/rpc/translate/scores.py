"""Translates scores: requests to plain values, and recorded scores to messages."""

from collections.abc import Collection
from typing import Final

from sidecar.core.evaluation.scores import Score, ScoreSource
from sidecar.core.executing.records import ScoreRecorded
from sidecar.core.identifiers import CallId, DispatchId, Principal, TurnId
from sidecar.operations.evaluation.record_score import ScoreAnswer
from sidecar.rpc.translate import enums
from sidecar.rpc.translate.fields import Fields, timestamp
from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import record_pb2

SOURCE_NAMES: Final = enums.names_of(record_pb2.ScoreSource)
EXPLANATION_KIB: Final = 4


def record_score(message: pb.RecordScoreRequest, sources: Collection[ScoreSource]) -> Score:
    """Return the score. `sources` are the sources that this listener accepts. Raises `InvalidRequest`."""
    fields = Fields("RecordScoreRequest")
    # Sources of the other listener get the same problem as unknown ones.
    accepted = {int(each): each for each in ScoreSource if each in sources}
    source = fields.member("source", message.source, accepted, SOURCE_NAMES)
    if not 0 <= message.value <= 1:  # true for NaN as well
        fields.refuse("value", f"must be from 0 to 1, was {message.value}")
    principal = Principal("")
    if message.principal or source is ScoreSource.USER:
        principal = fields.principal("principal", message.principal)
    score = Score(
        score_id=fields.run_side_id("score_id", message.score_id),
        turn_id=TurnId(fields.run_side_id("turn_id", message.turn_id)),
        dispatch_id=DispatchId(fields.run_side_id("dispatch_id", message.dispatch_id)),
        call_id=CallId(fields.run_side_id("call_id", message.call_id)),
        name=fields.definition_name("name", message.name),
        value=message.value,
        source=source,
        label=fields.definition_name("label", message.label) if message.label else "",
        explanation=fields.text("explanation", message.explanation, EXPLANATION_KIB),
        principal=principal,
    )
    fields.check()
    return score


def answer(given: ScoreAnswer) -> pb.RecordScoreResponse:
    """Return the answer to RecordScore."""
    call = given.call
    return pb.RecordScoreResponse(
        sub_agent_id=call.slot,
        definition_id=call.definition_id,
        definition_digest=call.digest,
        arm=call.arm,
        recorded_before=given.before,
    )


def score_message(score: ScoreRecorded) -> record_pb2.RecordedScore:
    """Return a recorded score as a message."""
    return record_pb2.RecordedScore(
        score_id=score.score_id,
        dispatch_id=score.dispatch_id,
        call_id=score.call_id,
        name=score.name,
        value=score.value,
        label=score.label,
        source=SOURCE_NAMES.get(score.source),
        explanation=score.explanation,
        recorded_by=score.by,
        recorded_at=timestamp(score.recorded_at),
    )
