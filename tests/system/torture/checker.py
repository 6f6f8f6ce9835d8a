"""Compares what clients were told with what the facts in the database say in the end.

The facts are read with plain SQL; what they say is derived by the sidecar's own reading, which has tests of its own.
"""

import asyncio
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import CallSettled, ChildOpened, DispatchOpened, Record, TurnEnded
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.turn_state import TurnState
from tests.support.postgres import PostgresServer
from tests.system.torture.agents import pause
from tests.system.torture.clients import Settled, Told

Row = Mapping[str, Any]
Kind = TypeVar("Kind")
FAILED: Final = "agent.subagent_failed"
CLOSED: Final = "agent.subagent_closed"
OF_FACTS: Final = "facts join turns on turns.number = turn join instances on instances.number = facts.instance"
SQLITE: Final = f"""
select turn_id, instances.instance as by, facts.at as at, hex(body) as body, hex(texts) as texts, hex(salt) as salt,
  hex(link) as link from {OF_FACTS} order by turn_id, version
"""
POSTGRES: Final = """
select turn_id, instance_id as by, at, encode(body, 'hex') as body, encode(texts, 'hex') as texts,
  encode(salt, 'hex') as salt, encode(link, 'hex') as link from facts order by turn_id, version
"""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Database(Protocol):
    """Where the record is, as anybody with a database client sees it."""

    def facts(self) -> Sequence[Stored]:
        """Return all facts, turn by turn, in order."""
        ...


@dataclass(frozen=True)
class SqliteFile:
    """The record's file, read only."""

    path: Path

    def facts(self) -> Sequence[Stored]:
        """Return all facts."""
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        try:
            connection.row_factory = sqlite3.Row
            rows = [dict(row) for row in connection.execute(SQLITE)]
        finally:
            connection.close()
        return [_fact(row, EPOCH + timedelta(microseconds=row["at"])) for row in rows]


@dataclass(frozen=True)
class PostgresDatabase:
    """A database, read by psql."""

    server: PostgresServer
    name: str

    def facts(self) -> Sequence[Stored]:
        """Return all facts."""
        said = self.server.sql(f"select coalesce(json_agg(each), '[]') from ({POSTGRES}) each", self.name)
        return [_fact(row, datetime.fromisoformat(row["at"]).astimezone(UTC)) for row in json.loads(said)]


def _fact(row: Row, at: datetime) -> Stored:
    body, texts, salt, link = (bytes.fromhex(row[name]) for name in ("body", "texts", "salt", "link"))
    return Stored(TurnId(row["turn_id"]), InstanceId(row["by"]), at, body, texts, salt, None, link)


class Kept:
    """What the facts of a database say, by kind."""

    def __init__(self, database: Database) -> None:
        """Read all of it."""
        self.records: list[Record] = []
        for turn_id, facts in groupby(database.facts(), lambda fact: fact.turn_id):
            self.records += TurnState(turn_id).read(facts)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Return the records of a kind."""
        return [each for each in self.records if isinstance(each, kind)]


@dataclass(frozen=True)
class Found:
    """What is on record.

    Attributes:
        lost: what was acknowledged and is not there, or is there otherwise.
        doubled: what is there twice.
        odd: whatever else must not be.
    """

    children: int
    events: int
    lost: Sequence[str]
    doubled: Sequence[str]
    odd: Sequence[str]


def compare(told: Told, database: Database) -> Found:
    """Compare what was told with what is there; every turn has to be over."""
    kept = Kept(database)
    children, events = kept.of(ChildOpened), kept.of(ChildEvent)
    ends_of_children, doubled, odd = _lives(children, events)
    outcomes, twice, without = _outcomes(told, kept)
    ends = {each.turn_id: each for each in kept.of(TurnEnded)}
    routed = Counter(each.turn_id for each in kept.of(RoutingRecord))
    calls = Counter((each.turn_id, each.dispatch_id, each.call_id) for each in children)
    doubled += twice + [f"two children of {key}" for key, count in calls.items() if count > 1]
    odd += without + [f"{each.turn_id} was never asked" for each in children if _unasked(told, each)]
    lost = [*told.wrong, *_lost_outcomes(told, outcomes), *_lost_ends(told, ends_of_children, ends)]
    for turn_id in {TurnId(turn) for turn, _ in told.outcomes}:
        if routed[turn_id] != 1:
            odd.append(f"{turn_id} has {routed[turn_id]} routing decisions")
    return Found(len(children), len(events), lost, doubled, odd)


def lost(told: Told, database: Database) -> list[str]:
    """Return what was told and is not there, or is there otherwise; turns may still be open."""
    kept = Kept(database)
    children, _, _ = _lives(kept.of(ChildOpened), kept.of(ChildEvent))
    outcomes, _, _ = _outcomes(told, kept)
    ends = {each.turn_id: each for each in kept.of(TurnEnded)}
    return [*told.wrong, *_lost_outcomes(told, outcomes), *_lost_ends(told, children, ends)]


def _lost_outcomes(told: Told, outcomes: Mapping[tuple[str, str, str], Settled]) -> Iterator[str]:
    for (turn_id, dispatch_id), settled in told.outcomes.items():
        for each in settled:
            kept = outcomes.get((turn_id, dispatch_id, each.call_id))
            if kept != each:
                yield f"{turn_id}: told {each}, kept {kept}"


def _lost_ends(told: Told, children: Mapping[str, tuple[str, str]], ends: Mapping[TurnId, TurnEnded]) -> Iterator[str]:
    for turn_id, statuses in told.ends.items():
        for child, end in statuses.items():
            if children.get(child) != end:
                yield f"{turn_id}: told that {child} ended {end}, kept {children.get(child)}"
        ended = ends.get(TurnId(turn_id))
        if ended is None or ended.narration != told.narrations[turn_id]:
            yield f"{turn_id}: its end is not there: {ended}"


def _unasked(told: Told, child: ChildOpened) -> bool:
    return child.call_id not in told.asked.get((child.turn_id, child.dispatch_id), ())


def _lives(
    children: Sequence[ChildOpened], events: Sequence[ChildEvent]
) -> tuple[Mapping[str, tuple[str, str]], list[str], list[str]]:
    """Return how each child ended, and what is wrong with its events."""
    of_child: dict[str, list[ChildEvent]] = defaultdict(list)
    for event in events:
        of_child[event.child_id].append(event)
    doubled = [f"event {each} twice" for each, count in Counter(each.event_id for each in events).items() if count > 1]
    ends: dict[str, tuple[str, str]] = {}
    odd: list[str] = []
    for child in (each.child_id for each in children):
        log = of_child[child]
        names = Counter(event.name for event in log)
        doubled += [f"{child}: {name} twice" for name in (FAILED, CLOSED) if names[name] > 1]
        if [event.sequence for event in log] != list(range(1, len(log) + 1)):
            odd.append(f"{child}: events {[event.sequence for event in log]}")
        if not log or log[-1].name != CLOSED:
            odd.append(f"{child} is not closed: {[event.name for event in log]}")
            continue
        said = json.loads(log[-1].details_json)
        ends[child] = (said["final_status"], said["close_reason"])
    return ends, doubled, odd


def _outcomes(told: Told, kept: Kept) -> tuple[Mapping[tuple[str, str, str], Settled], list[str], list[str]]:
    """Return the outcome that stands for each call, those that are there twice, and calls without any."""
    standing: dict[tuple[str, str, str], tuple[int, Settled]] = {}
    doubled = []
    for each in kept.of(CallSettled):
        key = (each.turn_id, each.dispatch_id, each.outcome.call_id)
        before = standing.get(key)
        if before is not None and before[0] == each.revision:
            doubled.append(f"two outcomes of {key}")
        if before is None or before[0] < each.revision:
            standing[key] = (each.revision, _settled(each.outcome))
    begun = {(turn, dispatch) for turn, dispatch, _ in standing}
    missing = [
        f"no outcome of {(turn, dispatch, call)}"
        for (turn, dispatch), calls in told.asked.items()
        for call in calls
        if (turn, dispatch) in begun and (turn, dispatch, call) not in standing
    ]
    return {key: settled for key, (_, settled) in standing.items()}, doubled, missing


def _settled(kept: CallOutcome) -> Settled:
    return Settled(
        kept.call_id,
        kept.outcome.value,
        kept.child_id or "",
        kept.answer.narration,
        kept.reason.value if kept.reason is not None else "",
        kept.attempts,
    )


async def over(database: Database) -> None:
    """Wait until every turn that dispatched is over on record: ended by its client, or for it."""
    while not await asyncio.to_thread(_is_over, database):
        await pause(0.2)


def _is_over(database: Database) -> bool:
    kept = Kept(database)
    ended = {each.turn_id for each in kept.of(RoutingRecord)}
    return ended >= {each.turn_id for each in kept.of(DispatchOpened)}


def figures(told: Told, found: Found) -> Mapping[str, int]:
    """Return what is printed of a run."""
    return {
        "turns": len(told.ends) + len(told.lost),
        "of them ended for a lost parent": len(told.lost),
        "acknowledged outcomes and ends": told.acknowledged,
        "children": found.children,
        "events": found.events,
        "times refused": told.refused,
        "lost": len(found.lost),
        "doubled": len(found.doubled),
    }


def spread(seconds: Sequence[float]) -> str:
    """Return the middle and the longest of some times."""
    return f"{sorted(seconds)[len(seconds) // 2]:.1f} (longest {max(seconds):.1f})"
