"""The record in memory, for `record.database = "memory"`, tests and the demo. No append has to wait."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sidecar.adapters.record_memory.contents import JournalContents
from sidecar.adapters.record_memory.journal import ONLY, MemoryJournal
from sidecar.core.executing.records import AttemptRecorded, Record
from sidecar.core.identifiers import InstanceId
from sidecar.core.journal.encoding import SALT_BYTES
from sidecar.core.journal.turn_state import TurnState
from sidecar.operations.ports import Recorder
from sidecar.operations.record.journal_reads import attempts_of
from sidecar.operations.record.journal_store import JournalStore
from sidecar.operations.record.lists import TurnListReader
from sidecar.operations.record.projector import Projector


class MemoryStore(JournalStore):
    """Implements `Store` for one instance of the sidecar. `MemoryJournal` explains the first three arguments.

    Attributes:
        journal: the journal.
        contents: the contents of the journal.
    """

    def __init__(
        self,
        contents: JournalContents | None = None,
        instance: InstanceId = ONLY,
        alive: Callable[[InstanceId], bool] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        journal = MemoryJournal(contents, instance, alive)
        nothing: Any = _NeverNeeded()  # appends do not wait, so no task writes them
        lists = TurnListReader(Projector(journal, journal.contents.rows, nothing), at_once=True)
        super().__init__(journal, nothing, recorder or nothing, partial(os.urandom, SALT_BYTES), lists)
        self.journal, self.contents = journal, journal.contents

    def records(self) -> tuple[Record, ...]:
        """Return all records in the order in which they were appended, for tests and for the timelines of the demo."""
        return records_in(self.contents)


def records_in(contents: JournalContents) -> tuple[Record, ...]:
    """Return the records of all facts of a journal, in order. Frames follow the fact with which they were stored."""
    numbered = [each for turn_id in contents.turns for each in _numbered(contents, TurnState(turn_id))]
    return tuple(record for _, record in sorted(numbered, key=lambda each: each[0]))


def _numbered(contents: JournalContents, state: TurnState) -> Iterator[tuple[int, Record]]:
    turn = contents.turns[state.turn_id]
    earlier: list[Record] = []
    for number, fact in zip(turn.numbers, turn.facts, strict=True):
        records = state.read((fact,))
        earlier += records
        yield from ((number, record) for record in records)
    # After all facts: the text of an attempt is in the outcome of its call.
    attempts: list[AttemptRecorded] = attempts_of(state, earlier, turn.frames.values())
    yield from ((turn.came_with[attempt.attempt_id], attempt) for attempt in attempts)


class _NeverNeeded:
    """Takes the place of objects that a journal in memory does not use, e.g. the task that repeats lost commits."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} is not needed in memory")
