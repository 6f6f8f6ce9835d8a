"""Compares what clients were told with what the database holds in the end. Uses nothing of the sidecar: plain SQL."""

import asyncio
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from tests.support.postgres import PostgresServer
from tests.system.torture.agents import pause
from tests.system.torture.clients import Settled, Told

Row = Mapping[str, Any]
FAILED: Final = "agent.subagent_failed"
CLOSED: Final = "agent.subagent_closed"
CHILDREN: Final = "select child_id, turn_id, dispatch_id, call_id from sub_agents"
EVENTS: Final = (
    "select child_id, sequence, event_id, name, details_json from sub_agent_events order by child_id, sequence"
)
TURN_IDS: Final = "select turn_id from routing_records"
"""What both databases understand."""


class Database(Protocol):
    """Where the record is, as anybody with a database client sees it."""

    def rows(self, query: str) -> Sequence[Row]:
        """Return the rows of a query."""
        ...

    def outcomes(self) -> Sequence[Row]:
        """Return turn_id, dispatch_id, call_id, revision and outcome (JSON text) of every outcome."""
        ...

    def ends(self) -> Sequence[Row]:
        """Return turn_id, narration and close_reason of every turn that has ended."""
        ...


@dataclass(frozen=True)
class SqliteFile:
    """The record's file, read only."""

    path: Path

    def rows(self, query: str) -> Sequence[Row]:
        """Return the rows of a query."""
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        try:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]
        finally:
            connection.close()

    def outcomes(self) -> Sequence[Row]:
        """Return every outcome."""
        return self.rows(
            "select turn_id, dispatch_id, call_id, revision, json_extract(body, '$.outcome') as outcome"
            " from call_outcomes"
        )

    def ends(self) -> Sequence[Row]:
        """Return every end."""
        return self.rows(
            "select turn_id, json_extract(body, '$.narration') as narration,"
            " json_extract(body, '$.close_reason') as close_reason from turn_ends"
        )


@dataclass(frozen=True)
class PostgresDatabase:
    """A database, read by psql."""

    server: PostgresServer
    name: str

    def rows(self, query: str) -> Sequence[Row]:
        """Return the rows of a query."""
        said = self.server.sql(f"select coalesce(json_agg(each), '[]') from ({query}) each", self.name)
        found: list[Row] = json.loads(said)
        return found

    def outcomes(self) -> Sequence[Row]:
        """Return every outcome."""
        return self.rows("select turn_id, dispatch_id, call_id, revision, outcome_json as outcome from call_outcomes")

    def ends(self) -> Sequence[Row]:
        """Return every end."""
        return self.rows("select turn_id, narration, close_reason from turn_ends")


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
    children, events = database.rows(CHILDREN), database.rows(EVENTS)
    ends_of_children, doubled, odd = _lives(children, events)
    outcomes, twice, without = _outcomes(told, database)
    ends = {row["turn_id"]: row for row in database.ends()}
    routed = Counter(row["turn_id"] for row in database.rows(TURN_IDS))
    calls = Counter((row["turn_id"], row["dispatch_id"], row["call_id"]) for row in children)
    doubled += twice + [f"two children of {key}" for key, count in calls.items() if count > 1]
    odd += without + [f"{row['turn_id']} was never asked" for row in children if _unasked(told, row)]
    lost = [*told.wrong, *_lost_outcomes(told, outcomes), *_lost_ends(told, ends_of_children, ends)]
    for turn_id in {turn for turn, _ in told.outcomes}:
        if routed[turn_id] != 1:
            odd.append(f"{turn_id} has {routed[turn_id]} routing decisions")
    return Found(len(children), len(events), lost, doubled, odd)


def _lost_outcomes(told: Told, outcomes: Mapping[tuple[str, str, str], Settled]) -> Iterator[str]:
    for (turn_id, dispatch_id), settled in told.outcomes.items():
        for each in settled:
            kept = outcomes.get((turn_id, dispatch_id, each.call_id))
            if kept != each:
                yield f"{turn_id}: told {each}, kept {kept}"


def _lost_ends(told: Told, children: Mapping[str, tuple[str, str]], ends: Mapping[str, Row]) -> Iterator[str]:
    for turn_id, statuses in told.ends.items():
        for child, end in statuses.items():
            if children.get(child) != end:
                yield f"{turn_id}: told that {child} ended {end}, kept {children.get(child)}"
        if ends.get(turn_id, {}).get("narration") != told.narrations[turn_id]:
            yield f"{turn_id}: its end is not there: {ends.get(turn_id)}"


def _unasked(told: Told, row: Row) -> bool:
    return row["call_id"] not in told.asked.get((row["turn_id"], row["dispatch_id"]), ())


def _lives(
    children: Sequence[Row], events: Sequence[Row]
) -> tuple[Mapping[str, tuple[str, str]], list[str], list[str]]:
    """Return how each child ended, and what is wrong with its events."""
    of_child: dict[str, list[Row]] = defaultdict(list)
    for event in events:
        of_child[event["child_id"]].append(event)
    doubled = [f"event {each} twice" for each, count in Counter(row["event_id"] for row in events).items() if count > 1]
    ends, odd = {}, []
    for child in (row["child_id"] for row in children):
        log = of_child[child]
        names = Counter(event["name"] for event in log)
        doubled += [f"{child}: {name} twice" for name in (FAILED, CLOSED) if names[name] > 1]
        if [event["sequence"] for event in log] != list(range(1, len(log) + 1)):
            odd.append(f"{child}: events {[event['sequence'] for event in log]}")
        if not log or log[-1]["name"] != CLOSED:
            odd.append(f"{child} is not closed: {[event['name'] for event in log]}")
            continue
        said = json.loads(log[-1]["details_json"])
        ends[child] = (said["final_status"], said["close_reason"])
    return ends, doubled, odd


def _outcomes(told: Told, database: Database) -> tuple[Mapping[tuple[str, str, str], Settled], list[str], list[str]]:
    """Return the outcome that stands for each call, those that are there twice, and calls without any."""
    standing: dict[tuple[str, str, str], tuple[int, Settled]] = {}
    doubled = []
    for row in database.outcomes():
        key = (row["turn_id"], row["dispatch_id"], row["call_id"])
        before = standing.get(key)
        if before is not None and before[0] == row["revision"]:
            doubled.append(f"two outcomes of {key}")
        if before is None or before[0] < row["revision"]:
            standing[key] = (row["revision"], _settled(json.loads(row["outcome"])))
    begun = {(turn, dispatch) for turn, dispatch, _ in standing}
    missing = [
        f"no outcome of {(turn, dispatch, call)}"
        for (turn, dispatch), calls in told.asked.items()
        for call in calls
        if (turn, dispatch) in begun and (turn, dispatch, call) not in standing
    ]
    return {key: settled for key, (_, settled) in standing.items()}, doubled, missing


def _settled(kept: Mapping[str, Any]) -> Settled:
    return Settled(
        kept["call_id"],
        kept["outcome"],
        kept.get("child_id") or "",
        (kept.get("answer") or {}).get("narration", ""),
        kept.get("reason") or "",
        kept.get("attempts", 0),
    )


async def over(database: Database) -> None:
    """Wait until every turn that dispatched is over on record: ended by its client, or for it."""
    while not await asyncio.to_thread(_is_over, database):
        await pause(0.2)


def _is_over(database: Database) -> bool:
    ended = {row["turn_id"] for row in database.rows(TURN_IDS)}
    return ended >= {row["turn_id"] for row in database.rows("select turn_id from dispatches")}


def figures(told: Told, found: Found) -> Mapping[str, object]:
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
