"""What facts cost: calls of Python functions to link, encode and decide the facts of a dispatch."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TypeVar

from sidecar.core.identifiers import TurnId
from sidecar.core.journal import rules
from sidecar.core.journal.entries import Draft, Fact, Stored
from sidecar.core.journal.facts import Body
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.marks import What
from sidecar.core.journal.refusals import FactRejected
from sidecar.core.journal.texts import Texts
from sidecar.core.journal.turn_state import state_of
from tests.support.journal_drafts import (
    a_draft,
    a_request,
    a_settlement,
    a_settling,
    an_opening,
    salted_fact,
    some_claims,
)

Result = TypeVar("Result")

OF_ONE_CHILD = 48
OF_A_FURTHER_CHILD = 28
"""Of 450 and 150 that a dispatch and a further child may take altogether; a little more than was counted."""


def facts_of_a_dispatch(children: int) -> list[tuple[Body, Texts]]:
    """Return a dispatch whose children start at once and settle one by one, as it is carried out."""
    request = a_request(slots=("shop",) * children)
    opening = an_opening(request, some_claims(), places=range(children))
    settling = [
        a_settling(request.dispatch_id, [a_settlement(place)], (What.ATTEMPT, What.WAITING), [place])
        for place in range(children)
    ]
    return [opening, *settling]


def counted(work: Callable[[], Result]) -> tuple[Result, int]:
    """Return what `work` returns, and how many Python functions it calls."""
    calls = 0

    def count(frame: FrameType, event: str, what: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        return work(), calls
    finally:
        sys.setprofile(None)


def decided_about(children: int) -> tuple[list[Stored], int]:
    """Return the facts of a dispatch, and how many Python functions are called to make and decide them."""
    head, total, facts = TurnHead(), 0, list[Stored]()
    for draft in [a_draft("turn-1", "one", 0, *fact) for fact in facts_of_a_dispatch(children)]:

        def decide(draft: Draft = draft, head: TurnHead = head) -> tuple[Fact, rules.Accepted | FactRejected]:
            fact = salted_fact(draft, bytes(16), links_of(head, draft.body))
            return fact, rules.decide(head, [fact], ())

        (fact, decided), calls = counted(decide)
        assert isinstance(decided, rules.Accepted)
        head, total = decided.head, total + calls - 1
        facts.append(fact.stored)
    return facts, total


def calls_for(children: int) -> int:
    """Return how many Python functions are called to make and decide the facts of a dispatch."""
    return decided_about(children)[1]


def calls_to_read(children: int) -> int:
    """Return how many Python functions are called to derive all that the facts of a dispatch say."""
    facts, _ = decided_about(children)
    return counted(partial(state_of, TurnId("turn-1"), facts))[1]


def test_facts_take_a_small_part_of_the_calls_of_a_dispatch() -> None:
    """Of one child, and for each further one."""
    one, eight = calls_for(1), calls_for(8)
    assert 0 < one <= OF_ONE_CHILD
    assert 0 < (eight - one) / 7 <= OF_A_FURTHER_CHILD


def test_what_a_child_costs_does_not_grow_with_its_siblings() -> None:
    """Deciding and reading back a turn of 128 children takes at most a little more a child than one of 16."""
    few, many = calls_for(16) / 16, calls_for(128) / 128
    assert 0 < many <= few
    read_few, read_many = calls_to_read(16) / 16, calls_to_read(128) / 128
    assert 0 < read_many <= read_few
