"""What a turn becomes with each fact, what facts follow, and groups of them."""

import pytest

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import ChildId
from sidecar.core.journal import rules
from sidecar.core.journal.facts import (
    AttemptRepeated,
    CallsCancelled,
    CallsSettled,
    ChildClosed,
    DelegationSettled,
    DispatchTaken,
    Progress,
    Settlement,
    TurnEnded,
)
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.marks import What
from sidecar.core.journal.refusals import FactRejected, Reason
from sidecar.core.journal.texts import Texts
from tests.support.journal_drafts import (
    a_draft,
    a_settlement,
    an_end,
    progress,
    salted_fact,
    some_claims,
)
from tests.unit.journal.lives import Life
from tests.unit.journal.one_turn import CHILD_0, CHILD_1, D1, D2, Turn, ended, later, noted, opened
from tests.unit.journal.planting import rules_with


def test_the_first_fact_brings_what_the_turn_was_bound_to() -> None:
    """A dispatch or an end; later ones need not."""
    for body in (opened(D1, 0), ended()):
        turn = Turn()
        turn.head = TurnHead()
        turn.refuses(body, Reason.UNBOUND)
    turn = Turn()
    turn.head = TurnHead()
    turn.takes(opened(D1, 0, claims=some_claims()))
    turn.takes(opened(D2, 2))


def test_what_does_not_follow_is_refused() -> None:
    """Links of another time, or of another child; of the end of a turn, made before anything else of it."""
    turn = Turn()
    before = turn.head
    turn.takes(noted())
    turn.refuses(noted(), Reason.NOT_FOLLOWING, links=links_of(before, noted()))
    turn.takes(noted(1), links=links_of(before, noted(1)))
    turn.refuses(noted(1), Reason.NOT_FOLLOWING, links=links_of(turn.head, noted(0)))
    unstarted, before = CallsSettled(D1, (a_settlement(2, ran=False),)), turn.head
    for epoch, by in ((1, "two"), (2, "one")):
        turn.takes(DispatchTaken(D1, epoch), by=by)
    turn.refuses(unstarted, Reason.OUTDATED, links=links_of(before, unstarted))
    turn.refuses(DispatchTaken(D1, 3), Reason.OUTDATED, links=links_of(before, DispatchTaken(D1, 3)))
    turn.refuses(CallsCancelled(D1, (2,)), Reason.OUTDATED, links=links_of(before, unstarted))
    before = turn.head
    turn.takes(unstarted)
    end = ended(0, 1)
    turn.refuses(end, Reason.OUTDATED, links=links_of(before, end))
    turn.refuses(opened(D2, 3), Reason.OUTDATED, links=(b"",))


def test_an_outcome_follows_its_child_although_it_tells_nothing_of_it() -> None:
    """A later revision concerns the child of its call."""
    turn = Turn()
    turn.waits(0)
    revised, before = CallsSettled(D1, (a_settlement(0, revision=1),)), turn.head
    turn.takes(ChildClosed(D1, (progress(0, What.ACCEPTED, What.CLOSED, attempts=1),)))
    turn.refuses(revised, Reason.OUTDATED, links=links_of(before, revised))
    turn.takes(revised)
    assert turn.head.children[0].link == turn.facts[-1].link


def test_what_a_turn_becomes() -> None:
    """Version, steps, owners, calls without an outcome, open children, attempts: after each fact."""
    turn = Turn()
    head = turn.head
    assert (head.version, head.bound, head.ended, head.next_step) == (1, True, False, 3)
    assert {step: (child.child_id, child.state) for step, child in head.children.items()} == {
        0: (CHILD_0, ExecutionState.RUNNING),
        1: (CHILD_1, ExecutionState.RUNNING),
    }
    assert (head.dispatches[D1].owner, head.dispatches[D1].epoch, head.dispatches[D1].unsettled) == ("one", 0, 3)
    turn.takes(later(7, parent=0, name="below"))
    assert (turn.head.next_step, turn.head.children[7].delegated) == (8, True)
    turn.takes(AttemptRepeated(D1, (progress(1, What.REPEATED, What.ATTEMPT, attempts=2),)))
    assert turn.head.children[1].attempts == 2
    turn.takes(AttemptRepeated(D1, (progress(1, What.ATTEMPT, attempts=3),)))
    turn.takes(CallsCancelled(D1, (2,)))
    assert (turn.head.dispatches[D1].cancelled, turn.head.unsettled) == (0b100, (D1,))
    turn.takes(DelegationSettled(D1, (progress(7, What.FAILED, What.CLOSED),)))
    turn.takes(
        CallsSettled(D1, (a_settlement(0), a_settlement(2, ran=False)), (progress(0, What.WAITING, attempts=1),))
    )
    assert turn.head.dispatches[D1].settled == (0b101, 0)
    turn.takes(CallsSettled(D1, (a_settlement(0, revision=1),)))
    assert (turn.head.dispatches[D1].settled, turn.head.dispatches[D1].unsettled) == ((0b101, 0b001), 1)
    turn.takes(DispatchTaken(D1, 1), by="two")
    assert (turn.head.dispatches[D1].owner, turn.head.dispatches[D1].epoch) == ("two", 1)
    turn.takes(CallsSettled(D1, (a_settlement(1),), (Progress(1, progress(1, What.FAILED).marks, 3),)), by="two")
    assert (turn.head.unsettled, set(turn.head.open_children)) == ((), {0, 1})
    end = an_end()[0]
    told = (progress(0, What.ACCEPTED, What.CLOSED, attempts=1), progress(1, What.CLOSED, attempts=3))
    turn.takes(TurnEnded(end.claims, end.close_reason, end.routing, told), by="two")
    assert (turn.head.version, turn.head.ended, turn.head.open_children) == (11, True, {})


def test_a_group_is_appended_whole_or_not_at_all() -> None:
    """One refused fact refuses those before it, too; what is there already is no new fact, wherever it stands."""
    turn = Turn()
    turn.takes(noted())
    first, note = turn.facts
    second = salted_fact(a_draft("turn-1", "one", 9, noted(1), Texts()), b"x" * 16, links_of(turn.head, noted(1)))
    wrong = salted_fact(a_draft("turn-1", "two", 9, noted(1), Texts()), b"y" * 16, links_of(turn.head, noted(1)))
    refused = rules.decide(turn.head, [second, wrong], ())
    assert isinstance(refused, FactRejected)
    assert (refused.fact, refused.reason) == (wrong, Reason.NOT_OWNER)
    decided = rules.decide(turn.head, [first, note, second, second, first], {first.link, note.link})
    assert isinstance(decided, rules.Accepted)
    assert (decided.new, decided.head.version) == ((second,), 3)
    nothing = rules.decide(turn.head, [first, note], {first.link, note.link})
    assert isinstance(nothing, rules.Accepted)
    assert (nothing.new, nothing.head) == ((), turn.head)


NARROWED = {
    "the links of children are not carried on": {
        "attempts=progress.attempts, link=link)": "attempts=progress.attempts)"
    },
    "a closed child is completed": {"What.CLOSED: ExecutionState.CLOSED,": "What.CLOSED: ExecutionState.COMPLETED,"},
    "a later attempt is one too many": {"least <= progress.attempts": "least < progress.attempts"},
    "a child that was delegated reserves nothing": {"1 << start.step)": "0)"},
    "a dispatch reserves one step": {"((1 << calls) - 1) << body.first_step": "1 << body.first_step"},
    "the end follows the newest fact only": {"chain=chained(head.chain, fact.stored.link)": "chain=fact.link"},
    "what only a running child can cause is forgotten": {
        "frozenset(What) - NOT_WHILE_RUNNING": "frozenset({What.WAITING, What.FAILED})"
    },
    "cancelled calls cannot settle": {
        "if before >> settled.place & 1:": "if (before | dispatch.cancelled) >> settled.place & 1:"
    },
}


@pytest.mark.parametrize("defect", NARROWED)
def test_rules_that_refuse_too_much_are_found(defect: str) -> None:
    """A whole turn that is carried out without a mistake is refused, or left elsewhere, by rules with the defect."""
    planted = rules_with(NARROWED[defect])
    lives = [Life(seed) for seed in range(40)]
    verdicts = [(planted.decide(TurnHead(), life.whole(), ()), life.head) for life in lives]
    assert any(not hasattr(each, "head") or each.head != head for each, head in verdicts)


def test_outcomes_and_children_are_told_apart_by_place() -> None:
    """A call at place 1 of a dispatch that begins at step 3 has the child at step 4."""
    turn = Turn()
    turn.takes(opened(D2, 3, (1,)))
    turn.takes(
        CallsSettled(D2, (Settlement(1, Outcome.SUCCEEDED, None, ran=True),), (progress(4, What.WAITING, attempts=1),))
    )
    turn.tries(CallsSettled(D2, (Settlement(0, Outcome.SUCCEEDED, None, ran=True),)))
    assert (turn.verdict.reason, turn.verdict.about) == (Reason.CHILD_MISSING, f"step 3 of {D2}")
    assert turn.head.children[4].child_id == ChildId("dispatch-2-child-1")
