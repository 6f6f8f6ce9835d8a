"""The states of a turn, its dispatches and its children, in any order of transitions.

What each state allows is said here once more. A transition that is not allowed is refused and changes nothing; one that
is allowed leads where it should.
"""

from typing import Any, Final, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sidecar.core.dispatching.frames import CallState
from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.errors import InternalError, RecordConflict, StoreUnavailable, TurnEnded
from sidecar.core.identifiers import InstanceId
from sidecar.operations.first_result import FirstResult
from sidecar.operations.requests import EndTurnRequest
from sidecar.operations.turn.state.dispatch_stages import Custody, DispatchStage, Ownership
from sidecar.operations.turn.state.ending import EndPlan, EndStage, TurnEnding
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from sidecar.operations.turn.state.transitions import IllegalTransition
from sidecar.operations.turn.state.turn import Origin
from sidecar.operations.turn.state.turn_ends import BY_PARENT, IDLE, PARENT_GONE, TurnClosed
from tests.support.turn_states import NOW, SLOTS, a_child, a_dispatch, a_turn, an_outcome, tried

OFTEN: Final = settings(max_examples=100, stateful_step_count=40, deadline=None)
ME, OTHER = InstanceId("me"), InstanceId("other")
AWAY: Final = StoreUnavailable("the store is away")


def an_end(routing: str) -> TurnClosed:
    """Return an end with a routing decision that is known by its name."""
    return TurnClosed((), cast("Any", routing))


class EndingMoves(RuleBasedStateMachine):
    """The end of a turn: tries from several sides, a store that fails or contradicts, others that end it first."""

    def __init__(self) -> None:
        super().__init__()
        self.ending = TurnEnding()
        self.stage, self.under_way, self.written = EndStage.OPEN, False, ""
        self.to_report = False
        self.attempts: list[FirstResult[Any]] = []
        self.first: EndTurnRequest | None = None
        self.ended: TurnClosed | None = None

    @rule(narration=st.sampled_from([None, "one", "two"]), idle=st.booleans())
    def begin(self, narration: str | None, idle: bool) -> None:
        """A parent, the reaper, or the want of room."""
        request = None if narration is None else EndTurnRequest("token", narration=narration)
        cause = IDLE if idle else PARENT_GONE
        allowed = self.stage is not EndStage.ENDED and not self.under_way
        if tried(self.ending, allowed=allowed, move=lambda: self.attempts.append(self.ending.begin(request, cause))):
            self.under_way = True
            if self.stage is not EndStage.LAID_OUT:  # else it may be on record as it is
                self.stage, self.first = EndStage.ENDING, self.first or request
                assert self.ending.cause is (BY_PARENT if self.first else cause)

    @rule(routing=st.sampled_from("ab"))
    def lay_out(self, routing: str) -> None:
        """What is written is fixed."""
        laid_out = EndPlan(an_end(routing), (), {})
        allowed = self.stage is EndStage.ENDING and self.under_way
        if tried(self.ending, allowed=allowed, move=lambda: self.ending.lay_out(laid_out)):
            self.stage, self.written = EndStage.LAID_OUT, routing

    @rule()
    def contradicted(self) -> None:
        """The record says otherwise."""
        if tried(self.ending, allowed=self.stage is EndStage.LAID_OUT, move=self.ending.contradicted):
            self.stage, self.written = EndStage.ENDING, ""

    @rule()
    def give_back(self) -> None:
        """Another sidecar works in it."""
        if tried(self.ending, allowed=self.stage is EndStage.ENDING, move=self.ending.give_back):
            self.stage = EndStage.OPEN

    @rule()
    def recorded(self) -> None:
        """The store has it."""
        if tried(self.ending, allowed=self.stage is EndStage.LAID_OUT, move=self.ending.recorded):
            self._has_ended(self.written)

    @rule(routing=st.sampled_from("ab"), fingerprint=st.sampled_from(["", "f"]), rarely=st.integers(0, 9))
    def found(self, routing: str, fingerprint: str, rarely: int) -> None:
        """It was on record already; not often, for nothing comes after it."""
        if rarely:
            return
        move = lambda: self.ending.found(an_end(routing), fingerprint)  # noqa: E731  of this one place
        if tried(self.ending, allowed=self.stage is not EndStage.ENDED, move=move):
            self._has_ended(routing)

    @rule(fails=st.booleans())
    def conclude(self, fails: bool) -> None:
        """A try is over; when it is over already, that changes nothing."""
        refused = AWAY if fails else None
        allowed = bool(self.attempts) and (fails or self.stage is EndStage.ENDED)
        if tried(self.ending, allowed=allowed, move=lambda: self.ending.conclude(refused)):
            if self.under_way:
                assert self.attempts[-1].how == (self.ended or refused)
            self.under_way = False

    @rule()
    def reported(self) -> None:
        """Only by who wrote it, and once."""
        if tried(self.ending, allowed=self.to_report, move=self.ending.reported):
            self.to_report = False

    @invariant()
    def everything_follows_from_the_stage(self) -> None:
        """Nothing of an earlier stage is left, and what was decided stays."""
        ending = self.ending
        assert (ending.stage, ending.request) == (self.stage, self.first)
        assert [each.settled for each in self.attempts[-1:]] == [not self.under_way] * bool(self.attempts)
        assert (ending.laid_out is not None) == (self.stage is EndStage.LAID_OUT)
        assert ending.closed == self.ended
        assert (ending.closed is not None) == (self.stage is EndStage.ENDED)
        assert (ending.unreported is not None) == self.to_report
        assert all(each.settled for each in self.attempts[:-1])

    def _has_ended(self, routing: str) -> None:
        self.stage, self.ended, self.to_report = EndStage.ENDED, an_end(routing), self.written == routing
        self.written = ""


CUSTODY_MOVES: Final = {
    (Custody.ELSEWHERE, "follow"): Custody.FOLLOWED,
    (Custody.FOLLOWED, "unfollow"): Custody.ELSEWHERE,
    (Custody.FOLLOWED, "take_over"): Custody.HERE,
    (Custody.FOLLOWED, "lose"): Custody.GIVEN_UP,
    (Custody.HERE, "lose"): Custody.LOST,
    (Custody.LOST, "lose"): Custody.LOST,
}


class CustodyMoves(RuleBasedStateMachine):
    """Who carries a dispatch out, beside whose it is on record."""

    @initialize(custody=st.sampled_from([Custody.HERE, Custody.ELSEWHERE]))
    def begins(self, custody: Custody) -> None:
        """It was accepted here, or brought back."""
        self.ownership, self.custody = Ownership(custody), custody
        self.owner, self.epoch = InstanceId(""), 0

    @rule(name=st.sampled_from(["follow", "unfollow", "take_over", "lose"]))
    def moves(self, name: str) -> None:
        """As the table says."""
        target = CUSTODY_MOVES.get((self.custody, name))
        if tried(self.ownership, allowed=target is not None, move=getattr(self.ownership, name)):
            self.custody = cast("Custody", target)

    @rule(owner=st.sampled_from([ME, OTHER]), alive=st.booleans())
    def is_read(self, owner: InstanceId, alive: bool) -> None:
        """The record is read; each other owner has another epoch."""
        self.epoch += owner != self.owner
        self.owner = owner
        self.ownership.note(owner, self.epoch, alive_elsewhere=alive and owner != ME)

    @rule()
    def is_taken(self) -> None:
        """A child of it is closed from here."""
        if tried(self.ownership, allowed=bool(self.owner), move=lambda: self.ownership.taken(ME)):
            self.epoch += self.owner != ME
            self.owner = ME

    @invariant()
    def it_is_where_the_table_says(self) -> None:
        """And nobody is told of what is lost."""
        if hasattr(self, "ownership"):
            ownership = self.ownership
            assert (ownership.custody, ownership.owner, ownership.epoch) == (self.custody, self.owner, self.epoch)
            assert ownership.here == (self.custody in {Custody.HERE, Custody.LOST})
            assert isinstance(ownership.conflict, RecordConflict) == (self.custody in {Custody.LOST, Custody.GIVEN_UP})
            assert not (ownership.owner == ME and ownership.alive_elsewhere)


class DispatchMoves(RuleBasedStateMachine):
    """Two dispatches of one turn: opened, withdrawn, run, lost, finished, ended with the turn."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = a_turn()
        self.dispatches: dict[str, LiveDispatch] = {}
        self.kept: set[str] = set()
        self.stages: dict[str, DispatchStage] = {}
        self.calls: dict[tuple[str, int], CallState] = {}
        self.steps = 0

    @rule(name=st.sampled_from("ab"), elsewhere=st.booleans())
    def comes(self, name: str, elsewhere: bool) -> None:
        """It is accepted here, once, or brought back from the record."""
        dispatch = a_dispatch(self.turn, name, elsewhere=elsewhere)
        keep = self.turn.bring_back if elsewhere else self.turn.accept
        open_ = self.turn.ending.stage is EndStage.OPEN
        if tried(self.turn, allowed=elsewhere or (open_ and name not in self.kept), move=lambda: keep(dispatch)):
            self.dispatches[name] = dispatch
            self.kept.add(name)
            self.stages[name] = DispatchStage.OPEN if elsewhere else DispatchStage.OPENING
            self.calls.update({(name, place): CallState.WAITING for place in range(len(SLOTS))})
            self.steps += 0 if elsewhere else len(SLOTS)

    @precondition(lambda self: self.dispatches)
    @rule(data=st.data(), move=st.sampled_from(["open", "withdraw"]))
    def opens(self, data: st.DataObject, move: str) -> None:
        """Its children are on record, or it is refused."""
        name, dispatch = self._one(data)
        action = dispatch.open if move == "open" else lambda: dispatch.withdraw(AWAY)
        if tried(dispatch, allowed=self.stages[name] is DispatchStage.OPENING, move=action):
            self.stages[name] = DispatchStage.OPEN if move == "open" else DispatchStage.WITHDRAWN
            assert dispatch.opened.how is (None if move == "open" else AWAY)
            self.kept -= {name} if move == "withdraw" else set()

    @precondition(lambda self: self.dispatches)
    @rule(data=st.data(), place=st.integers(0, len(SLOTS) - 1), settles=st.booleans())
    def call_moves(self, data: st.DataObject, place: int, settles: bool) -> None:
        """A call runs once, and settles once."""
        name, dispatch = self._one(data)
        planned, state = dispatch.plan.run[place], self.calls[name, place]
        child = a_child(dispatch, planned)
        open_ = self.stages[name] is DispatchStage.OPEN
        if settles:
            outcome = an_outcome(planned, Outcome.FAILED)
            allowed, target = open_ and state is not CallState.SETTLED, CallState.SETTLED
            moved = tried(dispatch, allowed=allowed, move=lambda: dispatch.settled(outcome, NOW))
        else:
            allowed, target = open_ and state is CallState.WAITING, CallState.RUNNING
            moved = tried(dispatch, allowed=allowed, move=lambda: dispatch.running(child, NOW))
        self.calls[name, place] = target if moved else state

    @precondition(lambda self: self.dispatches)
    @rule(data=st.data())
    def finishes(self, data: st.DataObject) -> None:
        """Once, and only when every call has its outcome."""
        name, dispatch = self._one(data)
        settled = all(self.calls[name, place] is CallState.SETTLED for place in range(len(SLOTS)))
        allowed = self.stages[name] is DispatchStage.OPEN and settled
        if tried(dispatch, allowed=allowed, move=dispatch.finish):
            self.stages[name] = DispatchStage.FINISHED
            assert dispatch.finished.how is dispatch.result

    @precondition(lambda self: self.dispatches)
    @rule(data=st.data(), move=st.sampled_from(["lose", "follow", "unfollow"]))
    def changes_hands(self, data: st.DataObject, move: str) -> None:
        """Another sidecar goes on with it, or this one looks after it for a while."""
        name, dispatch = self._one(data)
        before, kept = dispatch.ownership.custody, self.turn.dispatches.get(dispatch.dispatch_id) is dispatch
        action = dispatch.ownership.follow if move == "follow" else getattr(dispatch, move)
        if tried(self.turn if kept else dispatch, allowed=(before, move) in CUSTODY_MOVES, move=action):
            waiting = [each for each in dispatch.calls.stops.values() if not each.settled]
            assert not waiting or dispatch.ownership.conflict is None
            if move == "unfollow" and self.stages[name] is not DispatchStage.FINISHED:
                assert (dispatch.ownership.custody, self.turn.uncertain) == (Custody.GIVEN_UP, True)
                self.kept -= {name} if kept else set()

    @rule(rarely=st.integers(0, 9))
    def turn_ends(self, rarely: int) -> None:
        """What nobody finished finishes with the turn; then nothing more is accepted, and a second end is refused."""
        ending, turn = self.turn.ending, self.turn
        if rarely or any(self.stages[name] is DispatchStage.OPENING for name in self.kept):
            return  # the end waits for those
        if tried(turn, allowed=ending.stage is EndStage.OPEN, move=lambda: ending.begin(None, PARENT_GONE)):
            settling = {
                each.dispatch_id: {
                    planned.call.call_id: an_outcome(planned, Outcome.FAILED)
                    for planned in each.plan.run
                    if planned.place not in each.calls.outcomes
                }
                for each in turn.dispatches.values()
                if each.stage is not DispatchStage.FINISHED
            }
            ending.lay_out(EndPlan(an_end("a"), (), settling))
            turn.end_recorded()
            ending.conclude(None)
            self.stages.update(dict.fromkeys(self.kept, DispatchStage.FINISHED))
            self.calls.update({key: CallState.SETTLED for key in self.calls if key[0] in self.kept})
        with pytest.raises(TurnEnded):
            turn.refuse_if_over()

    @invariant()
    def all_is_as_the_tables_say(self) -> None:
        """Stages, kept dispatches, numbers of calls, results."""
        assert {name: each.stage for name, each in self.dispatches.items()} == self.stages
        assert set(self.turn.dispatches) == self.kept
        assert self.turn.next_step == self.steps
        for name, each in self.dispatches.items():
            assert (each.result is not None) == (self.stages[name] is DispatchStage.FINISHED) == each.finished.settled
            states = [self.calls[name, place] for place in range(len(SLOTS))]
            assert [one.state for one in each.calls.snapshot()] == states
            unsettled = [slot for slot, state in zip(SLOTS, states, strict=True) if state is not CallState.SETTLED]
            assert list(each.calls.stops) == unsettled

    def _one(self, data: st.DataObject) -> tuple[str, LiveDispatch]:
        name = data.draw(st.sampled_from(sorted(self.dispatches)))
        return name, self.dispatches[name]


for moves in (EndingMoves, CustodyMoves, DispatchMoves):
    moves.TestCase.settings = OFTEN
test_the_end_of_a_turn = EndingMoves.TestCase
test_who_carries_a_dispatch_out = CustodyMoves.TestCase
test_dispatches_of_a_turn = DispatchMoves.TestCase


@pytest.mark.parametrize("refused", [None, AWAY])
def test_a_turn_of_elsewhere_is_read_once(refused: StoreUnavailable | None) -> None:
    """Who comes second waits for the first; a turn that was bound here is not read at all."""
    here, turn = a_turn(), a_turn(Origin.UNREAD)
    tried(here, allowed=False, move=here.begin_restoring)

    tried(turn, allowed=False, move=lambda: turn.restored(refused))
    turn.begin_restoring()
    tried(turn, allowed=False, move=turn.begin_restoring)
    assert not turn.restoring.settled

    turn.restored(refused)
    assert (turn.restoring.settled, turn.restoring.how) == (True, refused)
    tried(turn, allowed=False, move=turn.begin_restoring)
    tried(turn, allowed=False, move=lambda: turn.restored(None))


def test_what_is_withdrawn_leaves_what_was_brought_back_in_its_place() -> None:
    """Another sidecar opened the dispatch while this one tried to, and the record was read before this one was told."""
    turn = a_turn()
    ours, theirs = a_dispatch(turn, "a"), a_dispatch(turn, "a", elsewhere=True)
    turn.accept(ours)
    turn.lose(ours)
    turn.bring_back(theirs)

    ours.withdraw(AWAY)
    assert dict(turn.dispatches) == {"a": theirs}


def test_an_open_turn_is_not_forgotten_in_part() -> None:
    """Only of an ended one is nothing needed but how it ended."""
    turn = a_turn()
    turn.accept(a_dispatch(turn, "a"))
    tried(turn, allowed=False, move=turn.slim)

    turn.ending.found(an_end("a"), "")
    turn.slim()
    assert (dict(turn.dispatches), dict(turn.children), turn.unrecorded) == ({}, {}, False)


def test_the_refusal_names_transition_and_stage() -> None:
    """For whoever reads the log."""
    with pytest.raises(IllegalTransition, match="recorded is not possible in the state OPEN"):
        TurnEnding().recorded()
    ending = TurnEnding()
    ending.begin(None, PARENT_GONE)
    ending.conclude(InternalError("x"))
    assert ending.stage is EndStage.ENDING


def test_an_end_that_is_on_record_finishes_the_dispatches_that_are_still_kept() -> None:
    """Of two that are followed, one is dropped while the end is being written: its last listener has left."""
    turn = a_turn()
    dropped, stays = (a_dispatch(turn, name, elsewhere=True) for name in ("dropped", "stays"))
    for each in (dropped, stays):
        turn.bring_back(each)
        each.ownership.follow()
    settling = {
        each.dispatch_id: {one.call.call_id: an_outcome(one, Outcome.FAILED) for one in each.plan.run}
        for each in (dropped, stays)
    }
    attempt = turn.ending.begin(None, PARENT_GONE)
    turn.ending.lay_out(EndPlan(an_end("a"), (), settling))

    dropped.unfollow()
    turn.end_recorded()
    turn.ending.conclude(None)

    assert attempt.how == turn.ending.closed
    assert (dropped.finished.settled, stays.finished.settled) == (False, True)
