"""Derives observations about a ramp from the facts of a turn: bound users, outcomes of calls, and scores."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.evaluation.arm_evidence import ArmEvidence, RampStep
from sidecar.core.identifiers import DispatchId, Slot, TurnId
from sidecar.core.journal.encoding import body_of, texts_of
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.facts import (
    CallsSettled,
    ChildrenOpened,
    DispatchOpened,
    ScoreRecorded,
    Settlement,
    TurnEnded,
)
from sidecar.core.journal.opening.claims import UnnamedClaims, UserTexts, named
from sidecar.core.rollout.serving import CONTROL, PASSES_ON, CandidateVerdict
from subagents_errors import CallFailure

SETTLING: Final = timedelta(seconds=10)
"""The time after a step until every replica binds by it. Turns that were bound earlier are not counted."""
NOT_OF_THE_DEFINITION: Final = frozenset(
    {
        *(CallFailure.CALL_CANCELLED, CallFailure.TURN_OVER, CallFailure.RECORD_UNAVAILABLE, CallFailure.INTERNAL),
        *(CallFailure.SIDECAR_UNREACHABLE, CallFailure.SIDECAR_LOST),
    }
)
"""Failures that clients or sidecars cause. Such a call is no evidence about its definition, and is not counted."""
RATED: Final = frozenset({Outcome.SUCCEEDED, Outcome.DEGRADED, Outcome.FAILED, Outcome.SUSPENDED})
"""Outcomes of calls that ran; calls that did not run say nothing about their definition."""


def observe(turn_id: TurnId, facts: Sequence[Stored], first: int, ramps: Iterable[ArmEvidence]) -> None:
    """Count the observations in the facts from number `first` on, counted from 1. Raises `UnreadableFact`.

    `facts` are all facts of the turn: earlier ones are needed for the claims and slots, but were counted before.
    """
    reading = _Turn(turn_id, list(ramps))
    for number, stored in enumerate(facts, 1):
        reading.take(stored, counts=number >= first)


class _Turn:
    def __init__(self, turn_id: TurnId, ramps: list[ArmEvidence]) -> None:
        self._turn_id, self._ramps = turn_id, ramps
        self._claims: SurfaceClaims | None = None
        self._of: dict[DispatchId, tuple[SurfaceClaims, int]] = {}
        self._slots: dict[int, Slot] = {}

    def take(self, stored: Stored, *, counts: bool) -> None:
        body = body_of(stored)
        if isinstance(body, DispatchOpened | TurnEnded) and body.claims is not None:
            # After an erasure the user is unknown; without a user, a turn belongs to no arm (`arm_in`).
            user = texts_of(stored).user or UserTexts()
            self._claims = named(UnnamedClaims(body.claims, user), self._turn_id)
            if counts:
                self._bound(self._claims, stored.at)
        if isinstance(body, DispatchOpened) and self._claims is not None:
            # The claims of this moment: a turn that is bound again may have other definitions in later dispatches.
            self._of[body.dispatch_id] = self._claims, body.first_step
        if isinstance(body, DispatchOpened | ChildrenOpened):
            self._slots |= {each.step: each.slot for each in body.children if each.parent is None}
        if counts and isinstance(body, CallsSettled) and body.dispatch_id in self._of:
            for call in body.calls:
                self._settled(call, *self._of[body.dispatch_id], stored.at)
        if counts and isinstance(body, ScoreRecorded) and body.dispatch_id in self._of:
            self._scored(body, *self._of[body.dispatch_id], stored.at)

    def _bound(self, claims: SurfaceClaims, at: datetime) -> None:
        for ramp in self._ramps:
            arm = arm_in(ramp.step, claims)
            if arm:
                ramp.assigned(claims.principal, arm, at)

    def _settled(self, call: Settlement, claims: SurfaceClaims, first: int, at: datetime) -> None:
        # Revision 1 replaces an outcome that could not be confirmed; the call itself was counted with revision 0 or
        # never.
        slot, unfit = self._slots.get(first + call.place), call.revision or not call.ran
        if unfit or call.outcome not in RATED or call.reason in NOT_OF_THE_DEFINITION:
            return
        failed = call.outcome in {Outcome.FAILED, Outcome.DEGRADED}
        reason = str(call.reason or call.outcome) if failed else ""
        for ramp, arm in self._arms(slot, claims):
            # Seconds, as in `LATENCY_BOUNDS`.
            took = None if call.took is None else call.took / 1e6
            ramp.called(claims.principal, arm, at, reason, took)
            if call.tokens is not None:
                # Input and output; cached tokens are part of the input, and the cost is no token.
                ramp.spent(claims.principal, arm, at, sum(call.tokens[:2]))

    def _scored(self, body: ScoreRecorded, claims: SurfaceClaims, first: int, at: datetime) -> None:
        for ramp, arm in self._arms(self._slots.get(first + body.place), claims):
            ramp.scored(claims.principal, arm, at, body.name, body.value)

    def _arms(self, slot: Slot | None, claims: SurfaceClaims) -> list[tuple[ArmEvidence, str]]:
        found = [(ramp, arm_in(ramp.step, claims)) for ramp in self._ramps if ramp.step.slot == slot]
        return [(ramp, arm) for ramp, arm in found if arm]


def arm_in(step: RampStep, claims: SurfaceClaims) -> str:
    """Return the arm to which the ramp assigned a turn; empty: another rule decided, or the turn is of another step."""
    # In an experiment, users of the control arm are sent to the target by the arm, not by the ramp.
    if not claims.principal or claims.arm == CONTROL or claims.bound_at < step.since + SETTLING:
        return ""
    verdicts = {verdict for slot, _, verdict in claims.candidates if slot == step.slot}
    digest = dict(claims.tools).get(step.slot)
    # By digest: the step compares two contents, and another content of the same id belongs to neither arm.
    if digest == step.active and not verdicts & PASSES_ON:
        return "active"
    # Only the ramp, and no flag or cohort, may have sent the user to the target: such users are no random sample.
    return "target" if digest == step.target and verdicts & PASSES_ON == {CandidateVerdict.RAMP} else ""
