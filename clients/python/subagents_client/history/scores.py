"""Scores of calls: as they are recorded, and as they are on record."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, unique


@unique
class ScoreSource(StrEnum):
    """What gave a score. The consumer-agent records those of users and rules."""

    UNSPECIFIED = "unspecified"
    """One that this version does not know. It is only read."""
    JUDGE = "judge"
    USER = "user"
    RULE = "rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A score of one call.

    Attributes:
        score_id: made by the caller, unique in the turn; the same score may be sent again.
        name: what is scored, e.g. `helpfulness`: a-z, 0-9, _ and -.
        value: 0, the worst, to 1, the best.
        label: what the value means, e.g. `thumbs_up`; same form as `name`.
        explanation: in words; erased with the content of the turn.
        principal: the user of the turn; required with `ScoreSource.USER`.
    """

    score_id: str
    turn_id: str
    dispatch_id: str
    call_id: str
    name: str
    value: float
    source: ScoreSource
    label: str = ""
    explanation: str = ""
    principal: str = ""


@dataclass(frozen=True, slots=True)
class ScoredCall:
    """What was scored, as the record says.

    Attributes:
        arm: `active`, `target` or `control`.
        recorded_before: whether an earlier request has recorded the same score.
    """

    sub_agent_id: str
    definition_id: str
    definition_digest: str
    arm: str
    recorded_before: bool


@dataclass(frozen=True, slots=True)
class RecordedScore:
    """A score on record.

    Attributes:
        label: what the value means; may be empty.
        explanation: empty if there is none, if it was erased, or if it did not fit into the answer.
        recorded_by: subject of the operators' token with which it was recorded; empty: the consumer-agent recorded it.
    """

    score_id: str
    dispatch_id: str
    call_id: str
    name: str
    value: float
    label: str
    source: ScoreSource
    explanation: str
    recorded_by: str
    recorded_at: datetime
