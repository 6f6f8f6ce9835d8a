"""What facts cost: calls of Python functions to link, encode and decide the facts of a dispatch."""

import sys
from types import FrameType

from sidecar.core.journal import rules
from sidecar.core.journal.facts import Body
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.marks import What
from sidecar.core.journal.texts import Texts
from tests.support.journal_drafts import (
    a_draft,
    a_request,
    a_settlement,
    a_settling,
    an_opening,
    salted_fact,
    some_claims,
)

OF_ONE_CHILD = 80
OF_A_FURTHER_CHILD = 50
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


def calls_for(children: int) -> int:
    """Return how many Python functions are called."""
    drafts = [a_draft("turn-1", "one", 0, *fact) for fact in facts_of_a_dispatch(children)]
    head, counted = TurnHead(), 0

    def count(frame: FrameType, event: str, what: object) -> None:
        nonlocal counted
        counted += event == "call"

    for draft in drafts:
        sys.setprofile(count)
        try:
            fact = salted_fact(draft, bytes(16), links_of(head, draft.body))
            decided = rules.decide(head, [fact], ())
        finally:
            sys.setprofile(None)
        assert isinstance(decided, rules.Accepted)
        head = decided.head
    return counted


def test_facts_take_a_small_part_of_the_calls_of_a_dispatch() -> None:
    """Of one child, and for each further one."""
    one, eight = calls_for(1), calls_for(8)
    assert 0 < one <= OF_ONE_CHILD
    assert 0 < (eight - one) / 7 <= OF_A_FURTHER_CHILD
