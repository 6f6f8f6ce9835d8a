"""Records become facts that say the same: those of whole turns, in groups of any size; and what no fact can hold."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import CallSettled, ChildOpened, DispatchOpened, Record, TurnEnded
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.reading import TurnReading
from tests.support.journal_beside import JournalBeside
from tests.unit.journal.lives import TURN, Life

SEEDS = st.integers(0, 1_000_000)
ONE, OTHER = InstanceId("one"), InstanceId("other")


def groups_of(seed: int) -> list[tuple[InstanceId, list[Record]]]:
    """Return the records of a whole turn, as its sidecars might append them: who, and what at once."""
    chance, reading = Random(seed), TurnReading(TurnId(TURN))
    groups: list[tuple[InstanceId, list[Record]]] = []
    for fact in Life(seed).whole():
        records = reading.take(fact.draft)
        if groups and groups[-1][0] == fact.draft.by and chance.random() < 0.3:
            groups[-1][1].extend(records)
        else:
            groups.append((fact.draft.by, records))
    return groups


@settings(max_examples=150)
@given(SEEDS)
def test_whole_turns_are_the_same_as_facts(seed: int) -> None:
    """Each group is accepted, and derived as it was; a repeated one changes nothing."""
    journal = JournalBeside()
    for by, records in groups_of(seed):
        assert list(journal.differences(records, by, kept=True)) == []
        facts = {turn: len(each.facts) for turn, each in journal.turns.items()}
        assert list(journal.differences(records, by, kept=True)) == []
        assert {turn: len(each.facts) for turn, each in journal.turns.items()} == facts


@settings(max_examples=60)
@given(SEEDS)
def test_what_does_not_belong_there_is_refused(seed: int) -> None:
    """A group of somebody who does not own the dispatch, and one that leaves out what came before it."""
    groups = groups_of(seed)
    journal = JournalBeside()
    for place, (by, records) in enumerate(groups):
        owned = [each for each in records if isinstance(each, ChildOpened | ChildEvent | CallSettled)]
        if owned and not any(isinstance(each, DispatchOpened) for each in records):
            assert list(journal.differences(owned, OTHER, kept=False)) == []
        if place and any(isinstance(each, ChildEvent | CallSettled) for each in records):
            assert list(JournalBeside().differences(owned, by, kept=False)) == []
        list(journal.differences(records, by, kept=True))


def test_half_of_an_end_is_no_fact() -> None:
    """The end of a turn and its routing decision are one fact."""
    [(by, records)] = groups_of(_without_dispatch())
    halves = [[each] for each in records]
    assert len(halves) == 2
    for half in halves:
        assert list(JournalBeside().differences(half, by, kept=False)) == []
    assert isinstance(records[0], TurnEnded)


@pytest.mark.parametrize("kind", [ChildOpened, CallSettled, ChildEvent])
def test_a_record_without_its_dispatch_is_no_fact(kind: type[Record]) -> None:
    """It names what nothing on record says."""
    records = (each for seed in range(100) for _, group in groups_of(seed) for each in group)
    one = next(each for each in records if isinstance(each, kind))
    [said] = JournalBeside().differences([one], ONE, kept=True)
    assert "the journal says" in said


def _without_dispatch() -> int:
    """Return a seed of a turn that ends as it begins."""
    return next(seed for seed in range(1000) if len(groups_of(seed)) == 1 and len(groups_of(seed)[0][1]) == 2)
