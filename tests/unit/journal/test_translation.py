"""Records become facts that say the same: those of whole turns, in groups of any size; and what no fact can hold."""

import os
from collections.abc import Sequence
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded, CallSettled, ChildOpened, DispatchOpened, Record, TurnEnded
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.encoding import SALT_BYTES
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.turn_projection import TurnProjection
from sidecar.core.journal.turn_state import TurnState
from sidecar.operations.record.kept_turn import NewFacts
from tests.support.recording.translation import TranslatedTurn
from tests.unit.journal.lives import TURN, Life

SEEDS = st.integers(0, 1_000_000)
ONE, OTHER = InstanceId("one"), InstanceId("other")
TURN_ID = TurnId(TURN)
NOTHING_NEW = NewFacts((), ())
SALTS = partial(os.urandom, SALT_BYTES)


def groups_of(seed: int) -> list[tuple[InstanceId, list[Record]]]:
    """Return the records of a whole turn, as its sidecars might append them: who, and what at once."""
    chance, reading = Random(seed), TurnProjection(TurnId(TURN))
    groups: list[tuple[InstanceId, list[Record]]] = []
    for fact in Life(seed).whole():
        records = reading.take(fact.draft)
        if groups and groups[-1][0] == fact.draft.by and chance.random() < 0.3:
            groups[-1][1].extend(records)
        else:
            groups.append((fact.draft.by, records))
    return groups


def taken(turn: TranslatedTurn, records: Sequence[Record], by: InstanceId) -> NewFacts | str:
    """Return what a turn makes of a group."""
    return turn.take(records, by, SALTS)


@settings(max_examples=60)
@given(SEEDS)
def test_whole_turns_are_the_same_as_facts(seed: int) -> None:
    """Each group is accepted, written, and read back as it was; a repeated one adds nothing, after a restart either."""
    turn, there, facts = TranslatedTurn(TURN_ID), TurnState(TURN_ID), list[Stored]()
    for by, records in groups_of(seed):
        new = taken(turn, records, by)
        assert isinstance(new, NewFacts)
        said = {each.record_id: each for each in there.read(new.facts)}
        assert said == {each.record_id: each for each in records if not isinstance(each, AttemptRecorded)}
        facts += new.facts
        assert taken(turn, records, by) == NOTHING_NEW
        assert taken(TranslatedTurn(TURN_ID, facts), records, by) == NOTHING_NEW
        assert there.head == turn.state.head


@settings(max_examples=60)
@given(SEEDS)
def test_what_does_not_belong_there_is_refused(seed: int) -> None:
    """A group of a sidecar that does not own the dispatch, and one that leaves out what came before it."""
    groups = groups_of(seed)
    turn = TranslatedTurn(TURN_ID)
    for place, (by, records) in enumerate(groups):
        owned = [each for each in records if isinstance(each, ChildOpened | ChildEvent | CallSettled)]
        head = turn.state.head
        if owned and not any(isinstance(each, DispatchOpened) for each in records):
            assert isinstance(taken(turn, owned, OTHER), str)
        if place and any(isinstance(each, ChildEvent | CallSettled) for each in records):
            assert isinstance(taken(TranslatedTurn(TURN_ID), owned, by), str)
        assert turn.state.head == head, "a refused group leaves nothing"
        assert isinstance(taken(turn, records, by), NewFacts)


def test_half_of_an_end_is_no_fact() -> None:
    """The end of a turn and its routing decision are one fact."""
    [(by, records)] = groups_of(_without_dispatch())
    halves = [[each] for each in records]
    assert len(halves) == 2
    for half in halves:
        assert (
            taken(TranslatedTurn(TURN_ID), half, by) == "a group of records becomes no facts: half of the end of a turn"
        )
    assert isinstance(records[0], TurnEnded)


@pytest.mark.parametrize("kind", [ChildOpened, CallSettled, ChildEvent])
def test_a_record_without_its_dispatch_is_no_fact(kind: type[Record]) -> None:
    """It names what nothing on record says."""
    records = (each for seed in range(100) for _, group in groups_of(seed) for each in group)
    one = next(each for each in records if isinstance(each, kind))
    said = taken(TranslatedTurn(TURN_ID), [one], ONE)
    assert isinstance(said, str)
    assert said.startswith("a group of records becomes no facts")


def _without_dispatch() -> int:
    """Return a seed of a turn that ends as it begins."""
    return next(seed for seed in range(1000) if len(groups_of(seed)) == 1 and len(groups_of(seed)[0][1]) == 2)
