"""The states of a child, in any order of transitions, with appends in between."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import AttemptId
from sidecar.core.journal.making.child_log import BEGUN
from sidecar.core.journal.making.settling import settled_call, settled_together
from sidecar.core.journal.marks import Values
from sidecar.operations.requests import Integration, Verdict
from subagents_errors import CallFailure
from tests.support.turn_states import NOW, a_child, a_dispatch, a_turn, an_outcome, tried


class ChildMoves(RuleBasedStateMachine):
    """One child: attempts, its outcome, and its end; with appends in between."""

    def __init__(self) -> None:
        super().__init__()
        dispatch = a_dispatch(a_turn(), "a")
        self.planned = dispatch.plan.run[0]
        self.child = a_child(dispatch, self.planned)
        self.state, self.settled, self.accepted = ExecutionState.RUNNING, False, False
        self.attempts = 0
        self.made = self.drafted = 0

    @rule()
    def begins_an_attempt(self) -> None:
        """While it runs."""
        move = lambda: self.child.begin_attempt(NOW, AttemptId("a"))  # noqa: E731  of this one place
        if tried(self.child, allowed=self.state is ExecutionState.RUNNING, move=move):
            self.attempts += 1
            self.made += 1

    @rule(fails=st.booleans())
    def work_ends(self, fails: bool) -> None:
        """Once."""
        move = (lambda: self.child.fail(NOW, "c", "s")) if fails else lambda: self.child.wait_for_merge(NOW)
        if tried(self.child, allowed=self.state is ExecutionState.RUNNING, move=move):
            self.state = ExecutionState.FAILED if fails else ExecutionState.WAITING_FOR_MERGE
            self.made += 1

    @rule(answers=st.booleans())
    def settles(self, answers: bool) -> None:
        """Once, when the work is over."""
        outcome = an_outcome(self.planned, Outcome.SUCCEEDED if answers else Outcome.FAILED)
        allowed = self.state is not ExecutionState.RUNNING and not self.settled
        if tried(self.child, allowed=allowed, move=lambda: self.child.settle(outcome, NOW)):
            self.settled = True

    @rule()
    def begins_again(self) -> None:
        """Not with an outcome."""
        tried(self.child, allowed=not self.settled, move=lambda: self.child.begin(NOW, 100.0, keep_frames=False))

    @rule()
    def is_revised(self) -> None:
        """Never: it was not brought back from the record."""
        outcome = an_outcome(self.planned, Outcome.FAILED)
        tried(self.child, allowed=False, move=lambda: self.child.revise(outcome))

    @rule(verdict=st.sampled_from(Verdict))
    def gets_a_verdict(self, verdict: Verdict) -> None:
        """When it has an outcome, and is not closed; only answers are integrated."""
        child, waits = self.child, self.state is ExecutionState.WAITING_FOR_MERGE
        allowed = self.settled and self.state is not ExecutionState.CLOSED
        integration = Integration(child.child_id, verdict)
        if tried(child, allowed=allowed, move=lambda: child.integrate_for_parent(integration, NOW)):
            assert child.outcome is not None
            self.accepted = waits and child.outcome.answered and verdict is not Verdict.REJECTED
            self.state = ExecutionState.CLOSED
            assert child.verdict is integration
            self.made += 1 + waits

    @rule(rarely=st.integers(0, 4))
    def is_closed_without_one(self, rarely: int) -> None:
        """When its work is over; not often, for nothing comes after it."""
        if rarely:
            return
        allowed = self.state in {ExecutionState.WAITING_FOR_MERGE, ExecutionState.FAILED}
        if tried(self.child, allowed=allowed, move=lambda: self.child.close_unintegrated(NOW, "r", "sidecar")):
            self.made += 1 + (self.state is ExecutionState.WAITING_FOR_MERGE)
            self.state = ExecutionState.CLOSED

    @rule(rarely=st.integers(0, 4))
    def nobody_goes_on_with_it(self, rarely: int) -> None:
        """Then it has failed, unless its work was over; not often, so that it comes to more."""
        if rarely:
            return
        self.child.fail_unfinished(NOW, CallFailure.TURN_OVER)
        self.made += self.state is ExecutionState.RUNNING
        self.state = ExecutionState.FAILED if self.state is ExecutionState.RUNNING else self.state

    @rule(take=st.booleans())
    def a_fact_tells_of_it(self, take: bool) -> None:
        """All that none told before, in order, and the same again unless it was taken; values go along."""
        values: list[Values] = []
        progress = self.child.progress(NOW, values, take=take)
        assert len(progress.marks) == len(values) == self.made - self.drafted
        assert progress.attempts == self.attempts
        self.drafted = self.made if take else self.drafted

    @invariant()
    def nothing_is_lost_and_nothing_comes_twice(self) -> None:
        """Every event is counted once; what was taken is on record, if nothing was left unconfirmed."""
        child = self.child
        assert child.log.sequence == BEGUN + self.made
        assert child.waits_for_a_fact == (self.made > self.drafted)
        assert (child.log.state, child.attempts) == (self.state, self.attempts)
        assert (child.outcome is not None) == self.settled
        assert child.integrated == self.accepted
        assert bool(child.close_reason) == (self.state is ExecutionState.CLOSED)


ChildMoves.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
test_a_child = ChildMoves.TestCase


def test_an_outcome_that_may_not_be_on_record_stays_in_front_of_the_one_that_was_told() -> None:
    """The higher revision stands, whether the store had the first one or not; neither is made anew."""
    turn = a_turn()
    dispatch = a_dispatch(turn, "a")
    turn.accept(dispatch)
    store, planned = MemoryStore(), dispatch.plan.run[0]
    drafts = [
        store.draft(
            turn.turn_id,
            NOW,
            *settled_together(
                dispatch.dispatch_id, [settled_call(an_outcome(planned, outcome), planned.place, revision=revision)]
            ),
        )
        for revision, outcome in enumerate((Outcome.SUCCEEDED, Outcome.FAILED))
    ]
    turn.happened(dispatch.dispatch_id, drafts[:1])
    turn.happened(dispatch.dispatch_id, drafts[1:])

    assert list(turn.in_front(dispatch.dispatch_id)) == drafts
    turn.found_on_record({drafts[0].salt})
    assert list(turn.in_front(dispatch.dispatch_id)) == drafts[1:]
    turn.recorded(dispatch.dispatch_id, drafts)
    assert not turn.unrecorded
