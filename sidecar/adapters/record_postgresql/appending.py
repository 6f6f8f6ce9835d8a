"""Turns decided appends into the arguments of `journal_append`: arrays, one per column."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import asyncpg
import msgspec

from sidecar.adapters.postgresql import Connection
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.appends import TurnAppend

TURN, FACT, FRAMES = 10, 8, 5
"""The numbers of columns that `journal_append` takes for turns, facts and frames."""
APPEND: Final = f"select journal_append({', '.join(f'${number}' for number in range(1, TURN + FACT + FRAMES + 2))})"
PARTITION: Final = "select journal_partition($1)"


async def append(connection: Connection, instance: InstanceId, appends: Sequence[TurnAppend]) -> frozenset[TurnId]:
    """Store the facts of turns, each given once; return the turns whose facts were stored."""
    # In the order of turn ids: `journal_append` locks the heads in this order, so two sidecars cannot deadlock.
    ordered = sorted(appends, key=lambda each: each.turn_id)
    arguments = (instance, *_arguments(ordered))
    try:
        stored = await connection.fetchval(APPEND, *arguments)
    # There is no partition for the day of a turn, so nothing was stored. Usually `renew_lease` has created the
    # partition the day before.
    except asyncpg.CheckViolationError:
        # In the order of days, so that two sidecars cannot deadlock: creating a partition takes locks.
        for day in sorted({each.day for each in appends}):
            await connection.execute(PARTITION, day)
        stored = await connection.fetchval(APPEND, *arguments)
    return frozenset(each.turn_id for each, is_stored in zip(ordered, stored, strict=True) if is_stored)


def _arguments(appends: Sequence[TurnAppend]) -> tuple[Any, ...]:
    if len({each.turn_id for each in appends}) < len(appends):
        raise ValueError("a turn is given twice: its head can be compared and set only once")
    facts: list[tuple[Any, ...]] = []
    frames: list[tuple[Any, ...]] = []
    # Facts and frames name their turn by its index in the arrays of turns, and arrays of PostgreSQL begin at 1.
    for turn, each in enumerate(appends, 1):
        for version, fact in enumerate(each.facts, each.before + 1):
            texts = (fact.texts, fact.salt, fact.texts_digest)
            facts.append((turn, version, fact.at, fact.body, *texts, fact.link))
        frames += [(turn, sent.attempt_id, sent.step, sent.number, sent.frames) for sent in each.frames]
    return (*_columns(map(_turn, appends), TURN), *_columns(facts, FACT), *_columns(frames, FRAMES))


def _turn(append: TurnAppend) -> tuple[Any, ...]:
    head, index = append.head, append.index
    if index is None and append.before == 0:
        raise ValueError(f"turn {append.turn_id} begins without an index")
    # NULL keeps the stored value of these columns. `unsettled` is always written: there NULL means that nothing is
    # open.
    of_index = (None,) * 4 if index is None else (index.episode_id, index.expires_at, index.ended_at, index.called)
    unsettled = [(each, head.dispatches[each].owner) for each in head.unsettled]
    began = append.facts[0].at if append.before == 0 else None
    unsettled_json = msgspec.json.encode(unsettled).decode() if unsettled else None
    return (
        append.turn_id,
        append.day,
        append.before,
        append.before + len(append.facts),
        began,
        *of_index,
        unsettled_json,
    )


def _columns(rows: Iterable[tuple[Any, ...]], columns: int) -> list[Sequence[Any]]:
    """Return rows as columns; without rows, empty columns."""
    return list(zip(*rows, strict=True)) or [()] * columns
