"""Records a score of one call as a fact of its turn. The record says which definition and which arm was scored.

A score comes from a judge or a user, usually after the end of its turn, so the fact is appended to a closed turn as
well. `ramp_evidence` counts scores per arm of a ramp.
"""

import asyncio
from typing import NoReturn

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.decoding import from_json
from sidecar.core.errors import (
    RecordConflict,
    ScoreIdReused,
    ScoreRefused,
    StoreUnavailable,
    UnknownCall,
    UnknownDispatch,
)
from sidecar.core.evaluation.scores import Score, ScoredCall, served_by
from sidecar.core.executing.records import ScoreRecorded
from sidecar.core.executing.stored_record import StoredDispatch, StoredTurn
from sidecar.core.journal.facts import ScoreRecorded as ScoreFact
from sidecar.core.journal.rules import MOST_SCORES
from sidecar.core.journal.texts import Texts
from sidecar.operations.ports import Clock, Recorder
from sidecar.operations.record.ports import Store
from sidecar.operations.record.timed_access import append_within, read_within
from sidecar.operations.record.turn_views import unknown
from sidecar.operations.turn.state.opening_records import request_from_json


class ScoreAnswer(msgspec.Struct, frozen=True):
    """The scored call; `before`: an earlier request has recorded the same score."""

    call: ScoredCall
    before: bool


class RecordScore:
    """The operation. Safe to repeat.

    Args:
        seconds: longest wait for the record, for each read and each append.
    """

    def __init__(self, store: Store, clock: Clock, recorder: Recorder, seconds: float) -> None:
        self._store, self._clock, self._recorder, self._seconds = store, clock, recorder, seconds

    async def __call__(self, score: Score, by: str = "") -> ScoreAnswer:
        """Record a score; `by` is the subject of the role token.

        Raises:
            UnknownTurn, UnknownDispatch, UnknownCall: the record has no such call of this user.
            ScoreRefused: the call cannot be scored, or not yet.
            ScoreIdReused: another score has this id.
            StoreUnavailable: it may be on record or not; repeat the request.
        """
        turn = await self._turn(score)
        dispatch = turn.dispatch(score.dispatch_id)
        if dispatch is None:
            raise UnknownDispatch(
                "the turn has no such dispatch on record", metadata={"dispatch_id": score.dispatch_id}
            )
        claims = from_json(dispatch.opened.claims_json, SurfaceClaims)
        if score.principal and claims.principal and claims.principal != score.principal:
            raise unknown(score.turn_id)  # as if there were no such turn: it is another user's
        place, call = _scored_call(score, dispatch, claims)
        if _is_recorded(turn, score):
            return ScoreAnswer(call, before=True)
        if not claims.principal:
            # The marker of an erasure lists the facts that it covers; the explanation would be outside of it.
            _refuse("erased", "the content of the turn was erased")
        before = await self._append(score, place, by)
        if not before:
            self._recorder.score_recorded(score, call)
        return ScoreAnswer(call, before)

    async def _append(self, score: Score, place: int, by: str) -> bool:
        """Append the score; return whether an equal request did so in the meantime."""
        source = int(score.source)
        body = ScoreFact(score.dispatch_id, place, score.score_id, score.name, score.value, source, score.label, by)
        texts = Texts(values=((score.explanation,),)) if score.explanation else Texts()
        draft = self._store.draft(score.turn_id, self._clock.now(), body, texts)
        rejected = await append_within(self._store, [draft], asyncio.get_running_loop().time() + self._seconds)
        # Another request may have recorded the same score in the meantime, or the limit is reached. The record tells
        # which.
        if isinstance(rejected, RecordConflict):
            turn = await self._turn(score)
            if _is_recorded(turn, score):
                return True
            if len(turn.scores) >= MOST_SCORES:
                _refuse("too_many", f"the turn has {MOST_SCORES} scores")
        if rejected is not None:
            raise rejected
        return False

    async def _turn(self, score: Score) -> StoredTurn:
        turn = await read_within(self._store.turn(score.turn_id), self._seconds)
        if isinstance(turn, StoreUnavailable):
            raise turn
        if turn is None:
            raise unknown(score.turn_id)
        return turn


def _scored_call(score: Score, dispatch: StoredDispatch, claims: SurfaceClaims) -> tuple[int, ScoredCall]:
    """Return the place of the call in its dispatch, and who served it."""
    calls = request_from_json(dispatch.opened.request_json, score.dispatch_id).calls
    place = next((place for place, each in enumerate(calls) if each.call_id == score.call_id), None)
    if place is None:
        raise UnknownCall("the dispatch has no such call", metadata={"call_id": score.call_id})
    # A score of a running call would judge an answer that does not exist yet.
    outcome = next((each for each in dispatch.outcomes if each.call_id == score.call_id), None)
    if outcome is None:
        _refuse("running", "the call has no outcome yet")
    if outcome.child_id is None or outcome.sub_agent_id is None:
        _refuse("not_served", "no sub-agent has run the call")
    return place, served_by(claims, outcome.sub_agent_id)


def _is_recorded(turn: StoredTurn, score: Score) -> bool:
    """Return whether the same score is on record. Raises `ScoreIdReused` if another one has its id."""
    there = next((each for each in turn.scores if each.score_id == score.score_id), None)
    if there is None:
        return False
    if _contents(there) != _contents(score):
        raise ScoreIdReused("another score of the turn has this score_id", metadata={"score_id": score.score_id})
    return True


def _contents(score: Score | ScoreRecorded) -> tuple[object, ...]:
    # Without the explanation, which may have been erased.
    return score.dispatch_id, score.call_id, score.name, score.value, int(score.source), score.label


def _refuse(cause: str, why: str) -> NoReturn:
    raise ScoreRefused(f"the call cannot be scored: {why}", metadata={"cause": cause})
