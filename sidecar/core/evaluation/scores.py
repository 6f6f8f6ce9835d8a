"""Scores of calls: what a client says, and what the record says about the scored call."""

from enum import IntEnum, unique

import msgspec

from sidecar.core.binding.surface import Candidate
from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.routing_record import arm_of
from sidecar.core.identifiers import CallId, DefinitionId, Digest, DispatchId, Principal, Slot, TurnId
from sidecar.core.rollout.serving import CandidateVerdict


@unique
class ScoreSource(IntEnum):
    """What gave a score; the numbers are those of the protos and of facts."""

    JUDGE = 1
    USER = 2
    RULE = 3


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """A score as a client sends it.

    Attributes:
        value: 0, the worst, to 1, the best.
        principal: the user of the turn; empty: not named.
    """

    score_id: str
    turn_id: TurnId
    dispatch_id: DispatchId
    call_id: CallId
    name: str
    value: float
    source: ScoreSource
    label: str = ""
    explanation: str = ""
    principal: Principal = Principal("")


class ScoredCall(msgspec.Struct, frozen=True):
    """Who served the scored call."""

    slot: Slot
    definition_id: DefinitionId
    digest: Digest
    arm: str


def served_by(claims: SurfaceClaims, slot: Slot) -> ScoredCall:
    """Return who served a slot in a turn that was bound to `claims`."""
    candidates = [Candidate(each, of, CandidateVerdict(verdict)) for each, of, verdict in claims.candidates]
    chosen = [
        each.definition_id for each in candidates if each.slot == slot and each.verdict is CandidateVerdict.CHOSEN
    ]
    definition = next((each for each in chosen if each is not None), DefinitionId(slot))
    return ScoredCall(slot, definition, dict(claims.tools).get(slot, Digest("")), arm_of(candidates, claims.arm, slot))
