"""The promise about the journal: the facts that a record's groups become say the same as the record."""

from collections.abc import Iterator
from typing import Final

from tests.support.journal_beside import JournalBeside
from tests.support.simulation.facts import Facts
from tests.support.simulation.record.facts import RecordFacts

ONE_IN: Final = 5
"""Of so many schedules, one is checked: all would cost a third of the time that it takes to play them."""


def the_journal_says_the_same(facts: Facts | RecordFacts) -> Iterator[str]:
    """Facts decide about each group as the record did, and say the same afterwards, record by record."""
    if facts.seen.schedule.seed % ONE_IN:
        return
    disk = facts.seen.store if isinstance(facts, Facts) else facts.seen.disk
    journal = JournalBeside()
    for group in disk.groups:
        found = [*journal.differences(group.records, group.instance, kept=group.kept)]
        if found:
            yield found[0]  # what comes after may differ because of it
            return
