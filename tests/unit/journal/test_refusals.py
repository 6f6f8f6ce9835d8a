"""Each rule of the journal by itself: what it refuses, for which reason, and in which words."""

from collections.abc import Callable

import msgspec
import pytest

from sidecar.core.journal.facts import (
    AttemptRepeated,
    Body,
    CallsCancelled,
    CallsSettled,
    ChildClosed,
    DelegationSettled,
    DispatchTaken,
    ScoreRecorded,
)
from sidecar.core.journal.marks import What
from sidecar.core.journal.refusals import SENTENCES, FactRejected, Reason
from sidecar.core.journal.rules import MOST_SCORES
from tests.support.journal_drafts import (
    a_settlement,
    progress,
)
from tests.support.requirement import requirement
from tests.unit.journal.one_turn import CHILD_0, CHILD_1, D1, D2, Turn, ended, later, noted, opened


def _taken(turn: Turn) -> None:
    turn.takes(DispatchTaken(D1, 1), by="two")


def _closed(turn: Turn) -> None:
    turn.takes(ChildClosed(D1, (progress(0, What.FAILED, What.CLOSED),)))


def _over(turn: Turn) -> None:
    turn.takes(ended(0, 1))


def _cancelled(turn: Turn) -> None:
    turn.takes(CallsCancelled(D1, (0, 2)))


def _unstarted(turn: Turn) -> None:
    turn.takes(CallsSettled(D1, (a_settlement(2, ran=False),)))


def _waiting(turn: Turn) -> None:
    turn.waits(0)


def _second(turn: Turn) -> None:
    turn.takes(opened(D2, 3, (0,)))


def _delegated(turn: Turn) -> None:
    turn.takes(later(3, parent=0, name="below"))


def a_score(number: int = 1, place: int = 2) -> ScoreRecorded:
    """Return a score of a call that was settled without a child."""
    return ScoreRecorded(D1, place, f"score-{number}", "helpfulness", 0.5, 1)


def _scored(turn: Turn) -> None:
    turn.takes(a_score())


def _often_scored(turn: Turn) -> None:
    for number in range(1, MOST_SCORES + 1):
        turn.takes(a_score(number))


Before = Callable[[Turn], None]
REFUSED: list[tuple[str, list[Before], Body, Reason, str]] = [
    ("a dispatch again", [], opened(D1, 3), Reason.ON_RECORD, D1),
    ("a child's id again", [], later(2, name=CHILD_1), Reason.ON_RECORD, CHILD_1),
    (
        "an outcome again",
        [_unstarted],
        CallsSettled(D1, (a_settlement(2, ran=False),)),
        Reason.ON_RECORD,
        "place 2, revision 0",
    ),
    (
        "an outcome twice in one",
        [],
        CallsSettled(D1, (a_settlement(2, ran=False),) * 2),
        Reason.ON_RECORD,
        "place 2, revision 0",
    ),
    ("an end again", [_over], ended(), Reason.ON_RECORD, ""),
    ("a dispatch after the end", [_over], opened(D2, 3), Reason.TURN_ENDED, ""),
    ("an outcome after the end", [_over], CallsSettled(D1, ()), Reason.TURN_ENDED, ""),
    ("a child of no dispatch", [], later(3, D2), Reason.UNKNOWN_DISPATCH, D2),
    ("a taking of no dispatch", [], DispatchTaken(D2, 1), Reason.UNKNOWN_DISPATCH, D2),
    ("a note by the owner before", [_taken], noted(), Reason.NOT_OWNER, D1),
    ("an outcome by the owner before", [_taken], CallsSettled(D1, ()), Reason.NOT_OWNER, D1),
    ("a child by the owner before", [_taken], later(2), Reason.NOT_OWNER, D1),
    ("a cancel by the owner before", [_taken], CallsCancelled(D1, (2,)), Reason.NOT_OWNER, D1),
    ("a close by the owner before", [_taken], ChildClosed(D1, ()), Reason.NOT_OWNER, D1),
    ("an attempt by the owner before", [_taken], AttemptRepeated(D1, ()), Reason.NOT_OWNER, D1),
    ("a delegation by the owner before", [_taken], DelegationSettled(D1, ()), Reason.NOT_OWNER, D1),
    ("an end that closes another's children", [_taken], ended(0, 1), Reason.NOT_OWNER, D1),
    ("the epoch that is there", [_taken], DispatchTaken(D1, 1), Reason.NOT_NEXT_EPOCH, "epoch 1 after 1"),
    ("an epoch too far", [], DispatchTaken(D1, 2), Reason.NOT_NEXT_EPOCH, "epoch 2 after 0"),
    ("a step of another child", [], later(1), Reason.STEP_TAKEN, "step 1"),
    ("a delegated child's step", [], later(1, parent=0), Reason.STEP_TAKEN, "step 1"),
    ("a dispatch over a child's step", [], opened(D2, 1, (0,)), Reason.STEP_TAKEN, "step 1"),
    ("a dispatch over reserved steps", [], opened(D2, 2, (1,)), Reason.STEP_RESERVED, "step 2"),
    ("a delegated child on a reserved step", [], later(2, parent=0), Reason.STEP_RESERVED, "step 2"),
    ("a note of no child", [], noted(2), Reason.UNKNOWN_CHILD, "step 2"),
    ("an end of no child", [], ended(0, 1, 2), Reason.UNKNOWN_CHILD, "step 2"),
    ("a note of a closed child", [_closed], noted(), Reason.CHILD_CLOSED, CHILD_0),
    ("an end with an open child", [], ended(0), Reason.OPEN_CHILDREN, "step 1"),
    ("a note of another dispatch's child", [_second], noted(3), Reason.CHILD_MISSING, f"step 3 of {D1}"),
    (
        "an outcome of a child that is not there",
        [],
        CallsSettled(D1, (a_settlement(2),)),
        Reason.CHILD_MISSING,
        f"step 2 of {D1}",
    ),
    ("a delegation by no child", [], later(3, parent=2), Reason.UNKNOWN_CHILD, "step 2"),
    (
        "a delegation by a child that waits",
        [_waiting],
        later(3, parent=0),
        Reason.ILLEGAL_STATE,
        f"DELEGATED of {CHILD_0}, which is waiting_for_merge",
    ),
    (
        "a delegation that nothing tells of, by a child that waits",
        [_waiting],
        msgspec.structs.replace(later(3, parent=0), progress=()),
        Reason.ILLEGAL_STATE,
        "step 0 is waiting_for_merge",
    ),
    (
        "a second end of the work",
        [_waiting],
        CallsSettled(D1, (), (progress(0, What.FAILED, attempts=1),)),
        Reason.ILLEGAL_STATE,
        f"FAILED of {CHILD_0}, which is waiting_for_merge",
    ),
    (
        "a verdict on a running child",
        [],
        ChildClosed(D1, (progress(0, What.ACCEPTED),)),
        Reason.ILLEGAL_STATE,
        f"ACCEPTED of {CHILD_0}, which is running",
    ),
    (
        "a close that leaves it open",
        [],
        ChildClosed(D1, (progress(0, What.FAILED),)),
        Reason.ILLEGAL_STATE,
        f"{CHILD_0} is left failed",
    ),
    ("a note that ends the work", [], noted(0, What.FAILED), Reason.ILLEGAL_STATE, f"{CHILD_0} is left failed"),
    (
        "a settled call whose child runs on",
        [],
        CallsSettled(D1, (), (progress(0, What.ATTEMPT, attempts=1),)),
        Reason.ILLEGAL_STATE,
        f"{CHILD_0} is left running",
    ),
    (
        "a child is created once",
        [],
        noted(0, What.CREATED),
        Reason.ILLEGAL_STATE,
        f"CREATED of {CHILD_0}, which is running",
    ),
    (
        "a delegation that was none",
        [],
        DelegationSettled(D1, (progress(0, What.FAILED, What.CLOSED),)),
        Reason.ILLEGAL_STATE,
        "step 0 was not delegated",
    ),
    (
        "a delegation by itself is none",
        [_delegated],
        DelegationSettled(D1, (progress(3, What.TOOL_REFUSED),)),
        Reason.ILLEGAL_STATE,
        "below is left running",
    ),
    (
        "an outcome of no call",
        [],
        CallsSettled(D1, (a_settlement(3, ran=False),)),
        Reason.UNKNOWN_CALL,
        "place 3, revision 0",
    ),
    (
        "a third revision",
        [],
        CallsSettled(D1, (a_settlement(2, ran=False, revision=2),)),
        Reason.UNKNOWN_CALL,
        "place 2, revision 2",
    ),
    (
        "a place before the first",
        [],
        CallsSettled(D1, (a_settlement(-1, ran=False),)),
        Reason.UNKNOWN_CALL,
        "place -1, revision 0",
    ),
    ("a cancel of no call", [], CallsCancelled(D1, (3,)), Reason.UNKNOWN_CALL, "place 3"),
    ("a child at no place", [_second], later(4), Reason.UNKNOWN_CALL, "step 4"),
    ("a child of a settled call", [_unstarted], later(2), Reason.CALL_OVER, "step 2"),
    ("a child of a cancelled call", [_cancelled], later(2), Reason.CALL_OVER, "step 2"),
    (
        "an attempt of a cancelled call",
        [_cancelled],
        AttemptRepeated(D1, (progress(0, What.ATTEMPT, attempts=2),)),
        Reason.CALL_OVER,
        "step 0",
    ),
    ("a cancel of a settled call", [_unstarted], CallsCancelled(D1, (2,)), Reason.CALL_OVER, "step 2"),
    ("a cancel again", [_cancelled], CallsCancelled(D1, (2,)), Reason.CALL_OVER, "step 2"),
    (
        "an attempt left out",
        [],
        AttemptRepeated(D1, (progress(0, What.ATTEMPT, attempts=3),)),
        Reason.ATTEMPTS,
        f"3 of {CHILD_0} after 0",
    ),
    (
        "an attempt that repeats none",
        [],
        AttemptRepeated(D1, (progress(0, What.ATTEMPT, attempts=1),)),
        Reason.ATTEMPTS,
        f"1 of {CHILD_0} after 0",
    ),
    ("an attempt that was not put on record", [], noted(attempts=2), Reason.ATTEMPTS, f"2 of {CHILD_0} after 0"),
    (
        "attempts that go back",
        [lambda turn: turn.takes(noted(attempts=1))],
        noted(),
        Reason.ATTEMPTS,
        f"0 of {CHILD_0} after 1",
    ),
    ("a score of a running call", [], a_score(place=0), Reason.ILLEGAL_STATE, "place 0 has no outcome"),
    ("a score of no call", [_unstarted], a_score(place=9), Reason.UNKNOWN_CALL, "place 9"),
    ("a score of the call after the last", [_unstarted], a_score(place=3), Reason.UNKNOWN_CALL, "place 3"),
    ("a score's id again", [_unstarted, _scored], a_score(), Reason.ON_RECORD, "score score-1"),
    ("a score's id again, after the end", [_unstarted, _scored, _over], a_score(), Reason.ON_RECORD, "score score-1"),
    ("a score too many", [_unstarted, _often_scored], a_score(0), Reason.SCORES, ""),
]


@requirement("SX-38", "SX-45")
@pytest.mark.parametrize(
    ("before", "body", "reason", "about"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
def test_what_is_refused(before: list[Before], body: Body, reason: Reason, about: str) -> None:
    """One fact after another, by the sidecar that opened the first dispatch."""
    turn = Turn()
    for step in before:
        step(turn)
    turn.tries(body)
    assert isinstance(turn.verdict, FactRejected), "accepted"
    assert (turn.verdict.reason, turn.verdict.about) == (reason, about)
    assert turn.verdict.fact is turn.facts[-1]
    kind = "".join("_" + letter.lower() if letter.isupper() else letter for letter in type(body).__name__)[1:]
    assert turn.verdict.text == f"{kind} {SENTENCES[reason]}{f' ({about})' if about else ''}"


def test_every_reason_has_a_sentence_and_a_case() -> None:
    """The table above and the tests below it name all of them."""
    assert set(SENTENCES) == set(Reason)
    elsewhere = {Reason.UNBOUND, Reason.NOT_FOLLOWING, Reason.OUTDATED}
    assert {each[3] for each in REFUSED} | elsewhere == set(Reason)
