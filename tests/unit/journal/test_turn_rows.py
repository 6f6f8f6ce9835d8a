"""The line of a turn in a list is derived from less than the turn is, and says the same."""

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.core.errors import UnknownTurn
from sidecar.core.executing.stored_record import StoredChild, TurnRow
from sidecar.core.identifiers import Principal, TurnId
from sidecar.core.journal.encoding import erased
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.turn_state import state_of
from sidecar.core.listing.turn_rows import turn_line
from sidecar.operations.record.turn_views import row_of
from tests.unit.journal.lives import TURN, Life

SEEDS = st.integers(0, 1_000_000)


def row_of_all(facts: list[Stored]) -> TurnRow | None:
    """Return the row of a turn of which everything was read."""
    stored = state_of(TurnId(TURN), facts).stored(frozenset())
    assert stored is not None
    try:
        row = row_of(stored)
    except UnknownTurn:
        return None
    called = Counter(child.opened.slot for child in stored.children)
    settled = [each for dispatch in stored.dispatches for each in dispatch.outcomes]
    return replace(  # a list shows more than the row of a single turn
        row,
        outcomes=tuple(sorted({each.outcome for each in settled})),
        reasons=tuple(sorted({each.reason for each in settled if each.reason is not None})),
        definitions=tuple(sorted({definition_of(child) for child in stored.children})),
        calls=tuple(called[slot] for slot in row.slots),
    )


def definition_of(child: StoredChild) -> str:
    """Return what a child's contract names."""
    return str(json.loads(child.opened.context_json)["definition_id"])


@settings(max_examples=150)
@given(SEEDS)
def test_a_line_is_the_row_of_the_turn_after_each_of_its_facts(seed: int) -> None:
    """While it is open, at its end, and when nobody ended it."""
    facts = [fact.stored for fact in Life(seed, asides=True).whole()]
    for number in range(1, len(facts) + 1):
        line = turn_line(TurnId(TURN), facts[:number])
        assert line.row == row_of_all(facts[:number])
        assert (line.version, line.day) == (number, facts[0].at.date())


@settings(max_examples=50)
@given(SEEDS)
def test_once_the_texts_are_erased_a_line_names_no_user_and_says_everything_else(seed: int) -> None:
    """The same slots, times, states and counts."""
    facts = [fact.stored for fact in Life(seed).whole()]
    before = turn_line(TurnId(TURN), facts).row
    assert before is not None
    after = turn_line(TurnId(TURN), [erased(fact) for fact in facts]).row
    assert after == replace(before, principal=Principal(""))
