"""The states of a child, in any order of transitions, with appends in between."""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import CallSettled
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import AttemptId
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
        self.written: dict[str, ChildEvent] = {}
        self.durable: set[str] = set()

    @rule()
    def begins_an_attempt(self) -> None:
        """While it runs."""
        move = lambda: self.child.begin_attempt(NOW, AttemptId("a"))  # noqa: E731  of this one place
        if tried(self.child, allowed=self.state is ExecutionState.RUNNING, move=move):
            self.attempts += 1

    @rule(fails=st.booleans())
    def work_ends(self, fails: bool) -> None:
        """Once."""
        move = (
            (lambda: self.child.fail(NOW, "c", "s")) if fails else lambda: self.child.wait_for_merge(NOW, "succeeded")
        )
        if tried(self.child, allowed=self.state is ExecutionState.RUNNING, move=move):
            self.state = ExecutionState.FAILED if fails else ExecutionState.WAITING_FOR_MERGE

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

    @rule(rarely=st.integers(0, 4))
    def is_closed_without_one(self, rarely: int) -> None:
        """When its work is over; not often, for nothing comes after it."""
        if rarely:
            return
        allowed = self.state in {ExecutionState.WAITING_FOR_MERGE, ExecutionState.FAILED}
        if tried(self.child, allowed=allowed, move=lambda: self.child.close_unintegrated(NOW, "r", "sidecar")):
            self.state = ExecutionState.CLOSED

    @rule(rarely=st.integers(0, 4))
    def nobody_goes_on_with_it(self, rarely: int) -> None:
        """Then it has failed, unless its work was over; not often, so that it comes to more."""
        if rarely:
            return
        self.child.fail_unfinished(NOW, CallFailure.TURN_OVER)
        self.state = ExecutionState.FAILED if self.state is ExecutionState.RUNNING else self.state

    @rule(most=st.integers(0, 3))
    def something_is_saved(self, most: int) -> None:
        """The first of what was not; the rest came in while it was appended."""
        appended = self.child.take_unsaved()[:most]
        self.child.saved(appended)
        self.durable |= {each.record_id for each in appended}

    @invariant()
    def nothing_is_lost_and_nothing_comes_twice(self) -> None:
        """Every event was there to be written, in order, each linked to the one before."""
        child = self.child
        self.written |= {each.record_id: each for each in child.unsaved if isinstance(each, ChildEvent)}
        events = list(self.written.values())
        assert [each.sequence for each in events] == list(range(1, child.log.sequence + 1))
        unsaved = [each.record_id for each in child.unsaved if isinstance(each, ChildEvent)]
        assert unsaved == [each for each in self.written if each not in self.durable]
        assert all(later.previous_link == each.link for each, later in pairwise(events))
        assert (child.log.state, child.attempts) == (self.state, self.attempts)
        assert (child.outcome is not None) == self.settled
        assert child.integrated == self.accepted
        assert bool(child.close_reason) == (self.state is ExecutionState.CLOSED)


ChildMoves.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
test_a_child = ChildMoves.TestCase


def test_what_could_not_be_recorded_is_corrected_by_a_higher_revision() -> None:
    """Only the outcome; the events stay as they happened."""
    dispatch = a_dispatch(a_turn(), "a")
    planned = dispatch.plan.run[0]
    child = a_child(dispatch, planned)
    child.add_unsaved(
        [CallSettled(dispatch.turn.turn_id, dispatch.dispatch_id, an_outcome(planned, Outcome.SUCCEEDED), NOW)]
    )
    events = child.take_unsaved()[:-1]

    child.correct(an_outcome(planned, Outcome.FAILED))

    *kept, settled = child.take_unsaved()
    assert kept == list(events)
    assert isinstance(settled, CallSettled)
    assert (settled.outcome.outcome, settled.revision) == (Outcome.FAILED, 1)
