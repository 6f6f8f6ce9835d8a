"""Appends, reads and file size over the facts that a record in SQLite holds.

The record is filled with copies of a turn that a sidecar has really run, through the same port as a sidecar's. So this
measures whatever lies behind the port.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final

from scripts.benchmark.growth.copies import Copies, copies_of
from scripts.benchmark.growth.curves import Curve, Figure, Point, change, each
from scripts.benchmark.growth.processes import KILOBYTE, MEGABYTE, MILLISECONDS, Place, size_of
from scripts.benchmark.growth.records import opened_store, original
from scripts.benchmark.load import p99_of
from scripts.benchmark.sidecar_server import SQLITE
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import TurnId
from sidecar.operations.record.ports import Store

APPEND: Final = "append, p50"
APPEND_99: Final = "append, p99"
READ: Final = "read a turn, p50"
READ_99: Final = "read a turn, p99"
LIST: Final = "list 50 turns, p50"
LEFT: Final = "left-behind work, p50"
SIZE: Final = "files"
FIGURES: Final = (
    Figure(APPEND, "ms"),
    Figure(APPEND_99, "ms"),
    Figure(READ, "ms"),
    Figure(READ_99, "ms"),
    Figure(LIST, "ms"),
    Figure(LEFT, "ms"),
    Figure(SIZE, "MB"),
)
STEPS: Final = (100_000, 250_000, 500_000, 1_000_000)
MEASURED: Final = 200
LISTED: Final = 20
PAGE: Final = 50
AT_ONCE: Final = 200
"""Turns that are handed over at a time: as many as a commit takes, so that filling waits for few of them."""
TOLD_EVERY: Final = 20
KEPT_TURNS: Final = 10_000
"""Of which some are read: spread over the whole file."""


async def over_facts(place: Place, steps: Sequence[int]) -> Curve:
    """Fill a record up to so many facts, and at each step append, read and list.

    A dispatch of one child counts as two facts and the end of a turn as one, as in `docs/journal.md`.

    Raises:
        ServerLost, WrongAnswer, LookupError: there is no turn to copy.
    """
    points: list[Point] = []
    turn_id, path = await original(place)
    async with opened_store(path.parent, SQLITE) as record:
        filling = _Filling(record.store, await copies_of(record.journal, turn_id), place)
        for facts in steps:
            await filling.up_to(facts)
            points.append(Point(facts, {**await filling.latencies(), SIZE: size_of(path) / MEGABYTE}))
            shown = points[-1].values
            place.tell(f"{facts:,} of {steps[-1]:,}: append {shown[APPEND]:.2f} ms, {shown[SIZE]:,.0f} MB")
    curve = Curve("facts", "A record in SQLite over its facts", "facts", FIGURES, points)
    findings = (
        change("append, p50, most against fewest facts", curve.of(APPEND)),
        change("read a turn, p50, most against fewest facts", curve.of(READ)),
        change("list 50 turns, p50, most against fewest facts", curve.of(LIST)),
        each("files for each further fact", [_in_kilobytes(point) for point in points], SIZE, "KB"),
    )
    return Curve(curve.name, curve.title, curve.over, curve.figures, points, findings)


class _Filling:
    def __init__(self, store: Store, copies: Copies, place: Place) -> None:
        self._store = store
        self._copies = copies
        self._place = place
        self._facts = 0
        self._random = Random(1)  # noqa: S311  which turns are read, no secret
        self._turns: list[TurnId] = []
        self._made = 0

    async def up_to(self, facts: int) -> None:
        """Append whole turns until there are so many facts."""
        begun, at_first, rounds = time.perf_counter(), self._facts, 0
        while self._facts < facts:
            await asyncio.gather(*(self._append_one() for _ in range(AT_ONCE)))
            rounds += 1
            if rounds % TOLD_EVERY == 0:
                rate = (self._facts - at_first) / (time.perf_counter() - begun)
                left = (facts - self._facts) / rate
                self._place.tell(f"  {self._facts:,} facts, {rate:,.0f} a second, {max(0.0, left):.0f} s to {facts:,}")

    async def latencies(self) -> dict[str, float]:
        """Append openings of turns that stay open, and read; one after the other. In milliseconds."""
        openings = [self._copies.next().by(self._store.instance)[:1] for _ in range(MEASURED)]
        appends = [await _timed(self._store.append, opening) for opening in openings]
        turns = [await _timed(self._store.turn, self._random.choice(self._turns)) for _ in range(MEASURED)]
        lists = [await _timed(self._store.turns, TurnQuery(limit=PAGE)) for _ in range(LISTED)]
        left = [await _timed(self._store.left_behind, PAGE) for _ in range(LISTED)]
        return {
            APPEND: _p50(appends),
            APPEND_99: p99_of(appends) * MILLISECONDS,
            READ: _p50(turns),
            READ_99: p99_of(turns) * MILLISECONDS,
            LIST: _p50(lists),
            LEFT: _p50(left),
        }

    async def _append_one(self) -> None:
        copy = self._copies.next()
        self._facts += self._copies.facts
        await self._store.append(copy.by(self._store.instance))
        self._made += 1
        if len(self._turns) < KEPT_TURNS:
            self._turns.append(copy.turn_id)
        elif self._random.randrange(self._made) < KEPT_TURNS:
            self._turns[self._random.randrange(KEPT_TURNS)] = copy.turn_id


async def _timed(call: Callable[..., Awaitable[object]], *arguments: object) -> float:
    began = time.perf_counter()
    await call(*arguments)
    return time.perf_counter() - began


def _p50(seconds: Sequence[float]) -> float:
    return sorted(seconds)[len(seconds) // 2] * MILLISECONDS


def _in_kilobytes(point: Point) -> Point:
    return Point(point.at, {SIZE: point.values[SIZE] * KILOBYTE})
