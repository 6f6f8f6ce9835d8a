"""Scores of calls: a score as a client sends it, and the recorded facts about the scored call."""

from enum import IntEnum, unique

import msgspec

from sidecar.core.binding.surface import Candidate
from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.routing_record import arm_of
from sidecar.core.identifiers import CallId, DefinitionId, Digest, DispatchId, Principal, Slot, TurnId
from sidecar.core.rollout.serving import CandidateVerdict


@unique
class ScoreSource(IntEnum):
    """The source of a score. Protos and stored facts contain these numbers."""

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
    """The definition and the arm that served the scored call."""

    slot: Slot
    definition_id: DefinitionId
    digest: Digest
    arm: str


def served_by(claims: SurfaceClaims, slot: Slot) -> ScoredCall:
    """Return the definition and the arm that served a slot in a turn with these claims."""
    candidates = [Candidate(each, of, CandidateVerdict(verdict)) for each, of, verdict in claims.candidates]
    # A slot has a verdict for each examined definition, and at most one of them was chosen.
    chosen = [
        each.definition_id for each in candidates if each.slot == slot and each.verdict is CandidateVerdict.CHOSEN
    ]
    definition = next((each for each in chosen if each is not None), DefinitionId(slot))
    return ScoredCall(slot, definition, dict(claims.tools).get(slot, Digest("")), arm_of(candidates, claims.arm, slot))
