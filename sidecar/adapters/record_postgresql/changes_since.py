"""Reads the facts of the PostgreSQL journal that the rows of lists do not contain yet.

Each instance (run of a sidecar) numbers its own facts.
"""

from collections.abc import Sequence
from typing import Any, Final

from sidecar.adapters.postgresql import StatementExecutor
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.entries import Stored
from sidecar.core.listing.changes import ChangedTurn, Changes, ReadPosition, Watermarks
from sidecar.operations.record.ports import NotThisJournal

FACT: Final = "turn_id, instance_id, at, body, texts, salt, texts_digest, link, erased_under"
ALTERATIONS: Final = "select (select count(*) from markers) + (select count(*) from erasures)"
BEHIND: Final = """
select head.instance_id, coalesce(mark.number, 0) as mark, head.number as newest,
    (select array_agg(day) from roots
      where roots.instance_id = head.instance_id and roots.newest > coalesce(mark.number, 0)) as days
  from instance_heads head left join unnest($1::text[], $2::bigint[]) mark (instance_id, number) using (instance_id)
  where head.number <> coalesce(mark.number, 0) and ($3::text[] is null or head.instance_id = any ($3))
    and not exists (select from lists_settled settled where settled.instance_id = head.instance_id)
  order by head.instance_id
"""
"""For each instance with facts after its mark: the mark, the newest number, and the days with such facts.

An instance with a mark above its newest number is returned, too, because it reveals a restored database. Settled
instances, i.e. dead ones that were read completely, are left out: each start of a sidecar adds one.
"""
NEXT: Final = f"""
select fact.* from unnest($2::text[], $3::bigint[], $4::bigint[]) sequence (instance_id, mark, newest)
  cross join lateral (
    select number, version, {FACT} from facts
      where day = any ($1) and facts.instance_id = sequence.instance_id and number > mark and number <= newest
      order by number limit $5
  ) fact order by fact.instance_id, fact.number limit $5
"""  # noqa: S608 - names only
"""The next facts, instance after instance. The inner limit lets each scan of a partition end early."""
FIRST_MISSING: Final = """
select min(next.at) from unnest($2::text[], $3::bigint[]) sequence (instance_id, reached)
  cross join lateral (
    select at from facts
      where day = any ($1) and facts.instance_id = sequence.instance_id and number > reached order by number limit 1
  ) next
"""
"""The time of the oldest fact that a page does not contain."""
ERASED: Final = "select distinct turn_id from facts where texts is null order by turn_id"


async def changed(statements: StatementExecutor, after: Watermarks, limit: int, only: Sequence[str] | None) -> Changes:
    """Return the turns of the next facts, instance after instance. Raises `NotThisJournal`.

    Facts of an instance become visible in the order of their numbers, because its appends wait for each other.
    Alterations are counted first: a turn that is altered during this read is read once more. Only partitions with
    such facts are searched. Facts that retention has removed are skipped.
    """
    # Four statements without a common snapshot: a pooler may run each on another connection. The order makes that safe:
    # alterations are read first, then the heads, then only facts up to these heads.
    alterations: int = await statements.value(ALTERATIONS)
    marks = {instance: mark.number for instance, mark in after.reached.items()}
    behind = await statements.rows(BEHIND, list(marks), list(marks.values()), None if only is None else list(only))
    for instance, mark, newest, _ in behind:
        # The numbers of an instance only grow, so the database was restored to a state before the mark.
        if mark > newest:
            raise NotThisJournal(f"{instance} has {newest} facts, but {mark} were read before")
    days = sorted({day for row in behind for day in row["days"] or ()})
    sequences = [row[:3] for row in behind if row["days"]]
    rows = await statements.rows(NEXT, days, *map(list, zip(*sequences, strict=True)), limit) if sequences else []
    reached = dict(after.reached)
    for row in rows:
        reached[row["instance_id"]] = ReadPosition(row["number"], row["link"])
    # A page may end inside a sequence. The rest of it is reported as a backlog, with the time of its first fact.
    missing: dict[str, int] = {}
    backlog = 0
    for instance, mark, newest, of_days in behind:
        number = reached[instance].number if instance in reached else mark
        if number == newest:
            continue
        # A page that is not full has all facts up to the newest ones. Those that it lacks were removed by retention,
        # and the position skips them. Otherwise they would count as a backlog forever.
        if not of_days or len(rows) < limit:
            reached[instance] = ReadPosition(newest, b"")
        else:
            missing[instance] = number
            backlog += newest - number
    as_of = await statements.value(FIRST_MISSING, days, list(missing), list(missing.values())) if missing else None
    return Changes(_turns(rows), Watermarks(reached, alterations, after.generation), backlog, as_of)


def _turns(rows: Sequence[Any]) -> tuple[ChangedTurn, ...]:
    """Return the turns of some facts.

    If the facts of a turn are not consecutive, only the newest one is returned: the caller must read the whole turn.
    """
    facts: dict[TurnId, dict[int, Stored]] = {}
    for row in rows:
        facts.setdefault(TurnId(row["turn_id"]), {})[row["version"]] = fact_from(row)
    turns: list[ChangedTurn] = []
    for turn_id, by_version in facts.items():
        # Several instances may append to one turn, and each has its own sequence. A page may therefore contain later
        # facts of a turn, but not the facts of another instance in between.
        versions = sorted(by_version)
        is_consecutive = versions[-1] - versions[0] == len(versions) - 1
        returned = versions if is_consecutive else versions[-1:]
        turns.append(ChangedTurn(turn_id, returned[0], tuple(by_version[version] for version in returned)))
    return tuple(turns)


def fact_from(row: Any) -> Stored:
    """Return the fact of a row."""
    return Stored(*(row[name] for name in FACT.split(", ")))
