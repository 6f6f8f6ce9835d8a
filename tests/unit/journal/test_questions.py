"""The answer to a question is a fact of the turn that asked: at most one for each, also after the end of the turn."""

import msgspec
import pytest

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.identifiers import DispatchId, TurnId
from sidecar.core.journal.facts import CallsSettled, QuestionAnswered
from sidecar.core.journal.marks import What
from sidecar.core.journal.refusals import Reason
from subagents_errors import CallFailure
from tests.support.journal_drafts import an_end, progress
from tests.unit.journal.one_turn import D1, D2, Turn, settled


def suspended(step: int, revision: int = 0) -> CallsSettled:
    """Return that a child asks back; of revision 1, that this could not be confirmed in time."""
    fact = settled(step, revision=revision)
    outcome = (
        (Outcome.FAILED, CallFailure.RECORD_UNAVAILABLE) if revision else (Outcome.SUSPENDED, CallFailure.NEEDS_INPUT)
    )
    call = msgspec.structs.replace(fact.calls[0], outcome=outcome[0], reason=outcome[1])
    told = () if revision else (progress(step, What.SUSPENDED, What.WAITING, attempts=1),)
    return CallsSettled(D1, (call,), told)


def answer(step: int = 0, by: str = "turn-2", dispatch: DispatchId = D1) -> QuestionAnswered:
    """Return that a call of another turn answers."""
    return QuestionAnswered(dispatch, step, TurnId(by), DispatchId("dispatch-9"), 0)


def a_turn(*, over: bool) -> Turn:
    """Return a turn whose child at step 0 has asked back, and whose child at step 1 has answered."""
    turn = Turn()
    turn.takes(suspended(0))
    turn.takes(settled(1))
    if over:
        told = tuple(progress(step, What.ACCEPTED, What.CLOSED, attempts=1) for step in (0, 1))
        turn.takes(msgspec.structs.replace(an_end(None, (), ())[0], progress=told))
    return turn


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("by", ["one", "two"])
def test_a_question_is_answered_once(over: bool, by: str) -> None:
    """By whichever sidecar; the second answer is refused, whoever gives it, and the turn stays as it was."""
    turn = a_turn(over=over)
    turn.takes(answer(), by=by)
    turn.refuses(answer(by="turn-3"), Reason.ON_RECORD)

    assert turn.head.ended is over


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (answer(1), Reason.ILLEGAL_STATE),
        (answer(7), Reason.UNKNOWN_CHILD),
        (answer(0, dispatch=D2), Reason.CHILD_MISSING),
        (settled(2), Reason.TURN_ENDED),
    ],
)
def test_nothing_else_follows_the_end(body: QuestionAnswered, reason: Reason) -> None:
    """Only the answer to a question that was asked."""
    a_turn(over=True).refuses(body, reason)


def test_a_question_whose_outcome_was_corrected_cannot_be_answered() -> None:
    """The parent was told that the outcome could not be recorded: it has no receipt."""
    turn = a_turn(over=False)
    turn.takes(suspended(0, revision=1))
    turn.refuses(answer(), Reason.ILLEGAL_STATE)
