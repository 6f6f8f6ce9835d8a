"""Scores of calls: the request to record a score, and recorded scores."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, unique


@unique
class ScoreSource(StrEnum):
    """What gave a score. A consumer-agent may record only scores of users and rules."""

    UNSPECIFIED = "unspecified"
    """A source that this version of the SDK does not know. Only recorded scores have it."""
    JUDGE = "judge"
    """A judge, usually a model."""
    USER = "user"
    """The user of the turn, with feedback."""
    RULE = "rule"
    """A rule that code evaluates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A score of one call.

    Attributes:
        score_id: id of the score, made by the caller and unique in the turn; the idempotency key.
        turn_id: id of the turn.
        dispatch_id: id of the dispatch.
        call_id: id of the call in the dispatch.
        name: what is scored, e.g. `helpfulness`; 1 to 60 characters a-z, 0-9, _ and -.
        value: the score, from 0 (worst) to 1 (best).
        source: what gave the score.
        label: what the value means, e.g. `thumbs_up`, in the form of `name`; empty: none.
        explanation: explanation in words; at most 4 KiB; may be empty; erased with the content of the turn.
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
    """The scored call, from the record.

    Attributes:
        sub_agent_id: the slot that was called.
        definition_id: the definition that served the call.
        definition_digest: digest of this definition.
        arm: which definition of the slot this was: `active`, `target` or `control`.
        recorded_before: whether an earlier request has recorded this score.
    """

    sub_agent_id: str
    definition_id: str
    definition_digest: str
    arm: str
    recorded_before: bool


@dataclass(frozen=True, slots=True)
class RecordedScore:
    """A recorded score of one call.

    Attributes:
        score_id: id of the score; unique in the turn.
        dispatch_id: id of the dispatch.
        call_id: id of the call in the dispatch.
        name: what was scored, e.g. `helpfulness`.
        value: the score, from 0 (worst) to 1 (best).
        label: what the value means; may be empty.
        source: what gave the score.
        explanation: explanation in words; empty if there was none, if it was erased, or if the answer would have
            become too large.
        recorded_by: subject of the role token with which the score was recorded; empty: the consumer-agent recorded it.
        recorded_at: when the score was recorded.
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
