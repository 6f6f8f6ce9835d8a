"""Appends facts to the SQLite journal, in one transaction for a group of turns. Runs in the writer's thread."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import date
from typing import Final

import apsw

from sidecar.adapters.record_sqlite.rows import FRAMES_OF_A_FACT, Value, first, insert, microseconds, rows_of
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.appends import TurnAppend, TurnIndex
from sidecar.core.journal.chain import NOTHING, rooted

NEW_TURN: Final = "INTO turns (number, turn_id, day, episode_id, expires_at, ended_at, called)"
NEW_FACT: Final = "INTO facts (number, turn, version, instance, at, body, texts, salt, texts_digest, link)"
NEW_FRAMES: Final = "INTO attempt_frames (place, turn, attempt_id, step, number, frames)"
NEW_ROOT: Final = "OR REPLACE INTO roots (instance, day, number, root)"
INDEXED: Final = "UPDATE turns SET expires_at = ?, ended_at = ?, called = ? WHERE number = ?"
REACHED: Final = "SELECT max((SELECT coalesce(max(number), 0) FROM facts), (SELECT max(reached) FROM instances))"
"""The highest number that a fact ever had. Retention may have removed this fact; `reached` then has its number."""
MOST_TURNS: Final = 4000
"""Maximum number of turns whose row number is cached. The number of any other turn is read from the database."""


class Appending:
    """Appends facts, and caches the end of the journal, i.e. its newest numbers and running roots.

    The cache is valid because only one process writes to the file. After a transaction that failed, the caller must
    call `forget`: the cache then contains numbers and roots that were not stored. Only `forget` runs on the event loop.

    Args:
        instance: the appending sidecar.
    """

    def __init__(self, instance: InstanceId) -> None:
        self._instance = instance
        self._clear_cache()

    def forget(self) -> None:
        """Discard the cache before the next append. An append that runs now in the writer's thread is not affected."""
        # Only a flag, because this runs on the event loop, while the writer's thread may use the cache.
        self._is_outdated = True

    def _clear_cache(self) -> None:
        self._is_outdated = False
        self._number: int | None = None
        self._instance_number = 0
        self._turn_number = 0
        self._turns: OrderedDict[TurnId, int] = OrderedDict()
        self._roots: dict[date, tuple[int, bytes]] = {}

    def append(self, connection: apsw.Connection, appends: Sequence[TurnAppend]) -> list[bool]:
        """Store facts. Return for each append whether its facts were stored; false: the turn exists already.

        Args:
            connection: within a transaction. The caller commits, or rolls back if this method raises an error.
            appends: the facts of several turns, each turn at most once.
        """
        if self._is_outdated:
            self._clear_cache()
        if self._number is None:
            self._read_end(connection)
        # Turns before facts, because a fact refers to the number of its turn. Only the first append of a turn can find
        # an unexpected state, if the turn was dropped from memory: this process is the only writer.
        existing = self._begin_turns(connection, [each for each in appends if each.before == 0])
        stored = [each.turn_id not in existing for each in appends]
        self._write(connection, [each for each, is_stored in zip(appends, stored, strict=True) if is_stored])
        for each in appends:
            if each.head.ended:
                self._turns.pop(each.turn_id, None)  # hardly any fact follows the end of a turn
        while len(self._turns) > MOST_TURNS:
            self._turns.popitem(last=False)  # the turn that was cached first
        return stored

    def _read_end(self, connection: apsw.Connection) -> None:
        # The tables are read only once. Afterwards the cache alone gives the numbers, so an append needs no read.
        self._instance_number = connection.execute(
            "SELECT number FROM instances WHERE instance = ?", (self._instance,)
        ).get
        self._turn_number = connection.execute("SELECT coalesce(max(number), 0) FROM turns").get
        self._number = connection.execute(REACHED).get

    def _begin_turns(self, connection: apsw.Connection, new: Sequence[TurnAppend]) -> set[TurnId]:
        """Insert the rows of new turns. Return the turns that existed before."""
        try:
            self._insert_turns(connection, new)
        # Rare, so that it is cheaper to insert first than to look each turn up before.
        except apsw.ConstraintError:
            return self._insert_missing_turns(connection, new)
        return set()

    def _insert_missing_turns(self, connection: apsw.Connection, new: Sequence[TurnAppend]) -> set[TurnId]:
        """Insert the missing rows after an insert was refused. Return the turns that existed before.

        The insert may have consisted of several statements, of which the first ones succeeded. Their rows have numbers
        above all earlier ones, by which they are recognised.
        """
        numbers = {each.turn_id: self._number_of(connection, each.turn_id) for each in new}
        inserted = {turn_id: number for turn_id, number in numbers.items() if number and number > self._turn_number}
        # Numbers are given without gaps, so the rows of the interrupted insert have the next numbers.
        self._turns.update(inserted)
        self._turn_number += len(inserted)
        self._insert_turns(connection, [each for each in new if numbers[each.turn_id] is None])
        return {turn_id for turn_id, number in numbers.items() if number and turn_id not in inserted}

    def _insert_turns(self, connection: apsw.Connection, new: Sequence[TurnAppend]) -> None:
        rows: list[Sequence[Value]] = []
        for number, each in enumerate(new, self._turn_number + 1):
            if each.index is None:
                raise ValueError(f"turn {each.turn_id} begins without an index")
            expires, ended, called = _index_row(each.index)
            rows.append((number, each.turn_id, each.day.isoformat(), each.index.episode_id, expires, ended, called))
        insert(connection, NEW_TURN, rows)
        # Only after the insert, which raises if one of the turns exists already.
        for number, each in enumerate(new, self._turn_number + 1):
            self._turns[each.turn_id] = number
        self._turn_number += len(new)

    def _number_of(self, connection: apsw.Connection, turn_id: TurnId) -> int | None:
        row = first(rows_of(connection, "SELECT number FROM turns WHERE turn_id = ?", (turn_id,)))
        return None if row is None else row[0]

    def _write(self, connection: apsw.Connection, appends: Sequence[TurnAppend]) -> None:
        facts: list[Sequence[Value]] = []
        frames: list[Sequence[Value]] = []
        days: set[date] = set()
        number = self._number or 0
        for append in appends:
            turn = self._turns.get(append.turn_id) or self._number_of(connection, append.turn_id)
            # Retention has removed the turn since its facts were decided. An error, because deciding again cannot help.
            if turn is None:
                raise LookupError(f"turn {append.turn_id} is not in the journal any more")
            self._turns[append.turn_id] = turn
            if append.index is not None and append.before > 0:  # a new turn was inserted with its index
                connection.execute(INDEXED, (*_index_row(append.index), turn))
            for version, fact in enumerate(append.facts, append.before + 1):
                number += 1
                instance, at = self._instance_number, microseconds(fact.at)
                texts = (fact.texts, fact.salt, fact.texts_digest)
                facts.append((number, turn, version, instance, at, fact.body, *texts, fact.link))
                # In the order of the numbers, because the running root is a hash over the links in this order.
                self._extend_root(connection, append.day, fact.link)
            for place, each in enumerate(append.frames, number * FRAMES_OF_A_FACT):
                frames.append((place, turn, each.attempt_id, each.step, each.number, each.frames))
            days.add(append.day)
        # All rows in few statements: the cost of the statements, not of the rows, limits the throughput. A running root
        # is stored once for each day, however many facts it covers.
        insert(connection, NEW_FACT, facts)
        insert(connection, NEW_FRAMES, frames)
        insert(connection, NEW_ROOT, [(self._instance_number, day.isoformat(), *self._roots[day]) for day in days])
        self._number = number

    def _extend_root(self, connection: apsw.Connection, day: date, link: bytes) -> None:
        known = self._roots.get(day)
        if known is None:
            key = (self._instance_number, day.isoformat())
            known = first(rows_of(connection, "SELECT number, root FROM roots WHERE instance = ? AND day = ?", key))
        number, root = known or (0, NOTHING)
        self._roots[day] = number + 1, rooted(root, link)


def _index_row(index: TurnIndex) -> tuple[int, int | None, int]:
    ended = None if index.ended_at is None else microseconds(index.ended_at)
    return microseconds(index.expires_at), ended, int(index.called)
