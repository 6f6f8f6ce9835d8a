"""The answer to a question is a fact of the turn that asked: at most one for each, also after the end of the turn."""

import msgspec
import pytest

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.identifiers import DispatchId, TurnId
from sidecar.core.journal.encoding import erased
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.facts import CallsSettled, QuestionAnswered
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.marks import What
from sidecar.core.journal.refusals import Reason
from sidecar.core.journal.rules import after
from sidecar.core.journal.texts import Texts
from sidecar.core.journal.turn_state import state_of
from subagents_errors import CallFailure
from tests.support.journal_drafts import a_draft, a_question, a_settlement, an_end, progress, salted_fact
from tests.unit.journal.one_turn import CHILD_0, D1, D2, Turn, opened, settled


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


def test_erased_texts_take_question_receipt_and_state_and_leave_the_answer_on_record() -> None:
    """What was decided stays: the question was asked, and is answered."""
    turn, stored = Turn.__new__(Turn), list[Stored]()
    turn.head = TurnHead()
    for number, (body, texts) in enumerate([*a_question(over=True), (answer(), Texts())], 1):
        fact = salted_fact(
            a_draft("turn-1", "one", number, body, texts), number.to_bytes(16, "big"), links_of(turn.head, body)
        )
        turn.head = after(turn.head, fact)
        stored.append(fact.stored)
    whole, left = state_of(TurnId("turn-1"), stored), state_of(TurnId("turn-1"), [erased(each) for each in stored])
    before, now = whole.stored(frozenset()), left.stored(frozenset())

    assert before is not None
    assert now is not None
    assert before.children[0].question == before.dispatches[0].outcomes[0].question
    assert (before.children[0].state, before.dispatches[0].outcomes[0].outcome) == (b"state-1", "suspended")
    assert (now.children[0].question, now.children[0].state) == (None, b"")
    assert now.dispatches[0].outcomes[0].outcome is Outcome.SUSPENDED
    assert now.children[0].answered_by == before.children[0].answered_by
    assert now.children[0].answered_by is not None


def test_each_of_several_questions_is_answered_by_itself() -> None:
    """Asked in one fact or in several, by children that are not the first of their dispatch."""
    turn = Turn()
    first, second = suspended(0), suspended(1)
    turn.takes(CallsSettled(D1, first.calls + second.calls, first.progress + second.progress))
    turn.takes(opened(D2, 3, (0, 1)))
    for place in (0, 1):
        call = msgspec.structs.replace(first.calls[0], place=place)
        told = (progress(3 + place, What.SUSPENDED, What.WAITING, attempts=1),)
        turn.takes(CallsSettled(D2, (call,), told))
    for step, dispatch in ((1, D1), (4, D2), (0, D1), (3, D2)):
        turn.takes(answer(step, dispatch=dispatch))
        turn.refuses(answer(step, by="turn-3", dispatch=dispatch), Reason.ON_RECORD)
        assert turn.verdict.about == f"the answer to {turn.head.children[step].child_id}"


def test_a_corrected_outcome_takes_only_its_own_question() -> None:
    """A child that asked nothing has still asked nothing, and another question stays."""
    turn = Turn()
    turn.takes(suspended(1))
    turn.takes(settled(0))
    turn.takes(CallsSettled(D1, (a_settlement(0, revision=1),)))
    turn.refuses(answer(0), Reason.ILLEGAL_STATE)
    assert turn.verdict.about == f"{CHILD_0} has asked nothing"
    turn.takes(CallsSettled(D1, suspended(1, revision=1).calls))
    turn.refuses(answer(1), Reason.ILLEGAL_STATE)
    turn.refuses(answer(0), Reason.ILLEGAL_STATE)
