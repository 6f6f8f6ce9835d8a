"""Copies of a turn that a sidecar has really run, with ids and times of their own, to fill a record with."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Final

import msgspec

from sidecar.core.executing.stored_record import StoredTurn
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.encoding import SALT_BYTES, draft_of
from sidecar.core.journal.entries import AttemptFrames, Draft
from sidecar.core.journal.turn_state import state_of
from sidecar.operations.record.kept_turn import KeptTurn
from sidecar.operations.record.ports import JournalReads

MINUTE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
FORMAT: Final = "%Y-%m-%dT%H:%M"
RANDOM_DIGITS: Final = 16


class Copy(msgspec.Struct, frozen=True):
    """A turn that differs from all others.

    Attributes:
        drafts: one for each of its facts, in order.
    """

    drafts: tuple[Draft, ...]

    @property
    def turn_id(self) -> TurnId:
        """Return its id."""
        return self.drafts[0].turn_id

    def turn(self) -> StoredTurn:
        """Return the turn as it is read once it is on record. Raises `LookupError`: it breaks the rules."""
        taken = KeptTurn(self.turn_id).take(self.drafts)
        if isinstance(taken, str):
            raise LookupError(f"a copy of a turn breaks the rules: {taken}")
        turn = state_of(self.turn_id, taken.facts).stored(frozenset())
        assert turn is not None  # noqa: S101  for the type checker: it has facts
        return turn

    def by(self, instance: InstanceId) -> list[Draft]:
        """Return the drafts as they are made by an instance."""
        return [msgspec.structs.replace(each, by=instance) for each in self.drafts]


class Copies:
    """Makes copies. Take it from `copies_of`."""

    def __init__(self, drafts: Sequence[Draft], ids: Sequence[str], seed: int) -> None:
        self._text = msgspec.json.encode(drafts).decode()
        self._ids = ids
        self._minutes = {found: datetime.strptime(found, FORMAT) for found in MINUTE.findall(self._text)}  # noqa: DTZ007  only minutes are counted on
        self._random = Random(seed)  # noqa: S311  ids that differ, no secrets
        self._made = 0
        self._decoder = msgspec.json.Decoder(tuple[Draft, ...])
        self.facts = len(drafts)

    def next(self) -> Copy:
        """Return another copy, a minute later than the one before; ids are as random as a caller's."""
        self._made += 1
        text = self._text
        for known in self._ids:
            text = text.replace(known, f"{known[:-RANDOM_DIGITS]}{self._random.getrandbits(64):016x}")
        for found, minute in sorted(self._minutes.items(), reverse=True):
            text = text.replace(found, (minute + timedelta(minutes=self._made)).strftime(FORMAT))
        drafts = tuple(
            msgspec.structs.replace(each, salt=self._random.randbytes(SALT_BYTES))
            for each in self._decoder.decode(text)
        )
        return Copy(drafts)


async def copies_of(journal: JournalReads, turn_id: TurnId, seed: int = 1) -> Copies:
    """Take a turn from a record that a sidecar has written. Raises `LookupError` if it is not there, or not ended."""
    facts, frames = (await journal.facts(turn_id)).facts, tuple(await journal.frames(turn_id))
    turn = state_of(turn_id, facts).stored(frozenset())
    if turn is None or turn.ended is None or turn.routing is None:
        raise LookupError(f"{turn_id} is not on record as ended")
    drafts = [draft_of(each) for each in facts]
    drafts[-1] = msgspec.structs.replace(drafts[-1], frames=frames)
    return Copies(drafts, _ids(turn, frames), seed)


def _ids(turn: StoredTurn, frames: Sequence[AttemptFrames]) -> Sequence[str]:
    children = [child.opened for child in turn.children]
    first = turn.dispatches[0].opened
    found = [turn.turn_id, first.episode_id, *(dispatch.opened.dispatch_id for dispatch in turn.dispatches)]
    found += [each for child in children for each in (child.call_id, child.child_id)]
    found += [each.attempt_id for each in frames]
    return list(dict.fromkeys(found))
