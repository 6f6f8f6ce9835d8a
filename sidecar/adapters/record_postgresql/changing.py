"""What has changed in the journal since it was read for lists. Facts are numbered by instance."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sidecar.adapters.postgresql import Asking
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.entries import Stored
from sidecar.core.listing.changes import ChangedTurn, Changes, Reached, Watermarks
from sidecar.operations.record.ports import NotThisJournal

FACT: Final = "turn_id, instance_id, at, body, texts, salt, texts_digest, link, erased_under"
ALTERATIONS: Final = "select (select count(*) from markers) + (select count(*) from erasures)"
BEHIND: Final = """
select head.instance_id, coalesce(mark.number, 0) as mark, head.number as newest
  from instance_heads head left join unnest($1::text[], $2::bigint[]) mark (instance_id, number) using (instance_id)
  where head.number <> coalesce(mark.number, 0) and ($3::text[] is null or head.instance_id = any ($3))
  order by head.instance_id
"""
NEXT: Final = f"""
select fact.* from unnest($1::text[], $2::bigint[], $3::bigint[]) sequence (instance_id, mark, newest)
  cross join lateral (
    select number, version, {FACT} from facts
      where facts.instance_id = sequence.instance_id and number > mark and number <= newest order by number limit $4
  ) fact order by fact.instance_id, fact.number limit $4
"""  # noqa: S608 - names only
FIRST_MISSING: Final = """
select min(at) from unnest($1::text[], $2::bigint[]) sequence (instance_id, reached)
  join facts on facts.instance_id = sequence.instance_id and facts.number = reached + 1
"""
ERASED: Final = "select distinct turn_id from facts where texts is null order by turn_id"


async def changed(asking: Asking, after: Watermarks, limit: int, only: Sequence[str] | None) -> Changes:
    """Return the turns of the next facts, those of one instance after those of another. Raises `NotThisJournal`.

    Facts of an instance show in the order of their numbers, because its appends wait for each other. Alterations are
    counted first: a turn that is altered while this reads is looked at once more.
    """
    alterations: int = await asking.value(ALTERATIONS)
    marks = {who: mark.number for who, mark in after.reached.items()}
    behind = await asking.rows(BEHIND, list(marks), list(marks.values()), None if only is None else list(only))
    for who, mark, newest in behind:
        if mark > newest:
            raise NotThisJournal(f"there are {newest} facts of {who}, and {mark} were read")
    rows = await asking.rows(NEXT, *map(list, zip(*behind, strict=True)), limit) if behind else []
    reached = dict(after.reached)
    for row in rows:
        reached[row["instance_id"]] = Reached(row["number"], row["link"])
    for who, _, newest in behind:
        looked_at = len(rows) < limit or who < rows[-1]["instance_id"]
        if looked_at and (who not in reached or reached[who].number < newest):
            reached[who] = Reached(newest, b"")  # retention has removed its last facts
    missing = {
        who: reached[who].number if who in reached else 0
        for who, _, newest in behind
        if who not in reached or reached[who].number < newest
    }
    as_of = await asking.value(FIRST_MISSING, list(missing), list(missing.values())) if missing else None
    ends: Mapping[str, int] = {who: newest for who, _, newest in behind}
    left = sum(ends[who] - number for who, number in missing.items())
    return Changes(_turns(rows), Watermarks(reached, alterations, after.generation), left, as_of)


def _turns(rows: Sequence[Any]) -> tuple[ChangedTurn, ...]:
    """Return the turns of some facts. Of one whose facts lie apart only the newest is told: all have to be read."""
    facts: dict[TurnId, dict[int, Stored]] = {}
    for row in rows:
        facts.setdefault(TurnId(row["turn_id"]), {})[row["version"]] = fact_from(row)
    turns: list[ChangedTurn] = []
    for turn_id, kept in facts.items():
        versions = sorted(kept)
        whole = versions[-1] - versions[0] == len(versions) - 1
        told = versions if whole else versions[-1:]
        turns.append(ChangedTurn(turn_id, told[0], tuple(kept[version] for version in told)))
    return tuple(turns)


def fact_from(row: Any) -> Stored:
    """Return the fact of a row."""
    return Stored(*(row[name] for name in FACT.split(", ")))
