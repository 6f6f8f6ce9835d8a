"""Copies of a turn that a sidecar has really run, with ids and times of their own, to fill a record with."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Final

import msgspec

from sidecar.core.executing.events import WAITING_FOR_MERGE, ChildEvent
from sidecar.core.executing.records import AttemptRecorded, CallSettled, ChildOpened, Record
from sidecar.core.executing.stored_record import StoredTurn
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.opening.requests import fingerprint_of
from sidecar.operations.record.ports import RecordReads

MINUTE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
FORMAT: Final = "%Y-%m-%dT%H:%M"
RANDOM_DIGITS: Final = 16
FACTS_OF_A_DISPATCH: Final = 2
"""Opened and settled; `docs/journal.md`."""


class _Original(msgspec.Struct, frozen=True):
    """What is copied: all that can be read of a turn."""

    turn: StoredTurn
    attempts: tuple[AttemptRecorded, ...]


class Copy(msgspec.Struct, frozen=True):
    """A turn that differs from all others.

    Attributes:
        groups: its records in order, as a sidecar appends them: for each dispatch what it keeps before the
            children start, and what comes before the outcome is told; at last the end of the turn.
    """

    turn: StoredTurn
    groups: tuple[tuple[Record, ...], ...]

    @property
    def records(self) -> tuple[Record, ...]:
        """Return all at once."""
        return tuple(record for group in self.groups for record in group)


class Copies:
    """Makes copies. Take it from `copies_of`."""

    def __init__(self, original: _Original, seed: int) -> None:
        self._text = msgspec.json.encode(original).decode()
        self._ids = _ids(original)
        self._minutes = {found: datetime.strptime(found, FORMAT) for found in MINUTE.findall(self._text)}  # noqa: DTZ007  only minutes are counted on
        self._random = Random(seed)  # noqa: S311  ids that differ, no secrets
        self._made = 0
        self.facts = FACTS_OF_A_DISPATCH * len(original.turn.dispatches) + 1

    def next(self) -> Copy:
        """Return another copy, a minute later than the one before; ids are as random as a caller's."""
        self._made += 1
        text = self._text
        for known in self._ids:
            text = text.replace(known, f"{known[:-RANDOM_DIGITS]}{self._random.getrandbits(64):016x}")
        for found, minute in sorted(self._minutes.items(), reverse=True):
            text = text.replace(found, (minute + timedelta(minutes=self._made)).strftime(FORMAT))
        copied = msgspec.json.decode(text, type=_Original)
        return _as_records(copied)


async def copies_of(record: RecordReads, turn_id: TurnId, seed: int = 1) -> Copies:
    """Take a turn from a record that a sidecar has written. Raises `LookupError` if it is not there, or not ended."""
    turn = await record.turn(turn_id)
    if turn is None or turn.ended is None or turn.routing is None:
        raise LookupError(f"{turn_id} is not on record as ended")
    return Copies(_Original(turn, tuple(await record.attempts(turn.turn_id))), seed)


def _ids(original: _Original) -> Sequence[str]:
    turn = original.turn
    children = [child.opened for child in turn.children]
    first = turn.dispatches[0].opened
    found = [turn.turn_id, first.episode_id, *(dispatch.opened.dispatch_id for dispatch in turn.dispatches)]
    found += [each for child in children for each in (child.call_id, child.child_id)]
    found += [attempt.attempt_id for attempt in original.attempts]
    return list(dict.fromkeys(found))


def _as_records(copied: _Original) -> Copy:
    """Put what was read in the order in which it came, with links that fit the new ids."""
    turn = _fitting(copied.turn)
    groups: list[tuple[Record, ...]] = []
    closing: list[Record] = []
    for dispatch in turn.dispatches:
        opened = dispatch.opened
        began: list[Record] = [opened]
        settled: list[Record] = []
        for child in turn.children:
            if child.opened.dispatch_id == opened.dispatch_id:
                events = child.events
                waiting = next(place for place, event in enumerate(events) if event.name == WAITING_FOR_MERGE)
                began += [child.opened, *events[:waiting]]
                settled.append(events[waiting])
                closing += events[waiting + 1 :]
        settled += [each for each in copied.attempts if each.dispatch_id == opened.dispatch_id]
        settled += [CallSettled(turn.turn_id, opened.dispatch_id, each, opened.opened_at) for each in dispatch.outcomes]
        groups += [tuple(began), tuple(settled)]
    assert turn.ended is not None  # noqa: S101  for the type checker: `copies_of` has looked
    assert turn.routing is not None  # noqa: S101  for the type checker: as above
    return Copy(turn, (*groups, (*closing, turn.ended, turn.routing)))


def _fitting(turn: StoredTurn) -> StoredTurn:
    """Return a turn with the links and fingerprints that fit its ids."""
    replace = msgspec.structs.replace
    children = (replace(each, events=tuple(_linked(each.opened, each.events))) for each in turn.children)
    dispatches = (
        replace(each, opened=replace(each.opened, fingerprint=fingerprint_of(each.opened.request_json)))
        for each in turn.dispatches
    )
    return replace(turn, children=tuple(children), dispatches=tuple(dispatches))


def _linked(child: ChildOpened, events: Sequence[ChildEvent]) -> Sequence[ChildEvent]:
    linked: list[ChildEvent] = []
    previous = child.link
    for event in events:
        link = event.relinked(previous)
        linked.append(msgspec.structs.replace(event, previous_link=previous, link=link))
        previous = link
    return linked
