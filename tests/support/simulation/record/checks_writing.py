"""Promises of whoever writes the record: what is acknowledged is kept, in order, once; chains and roots add up."""

import json
from collections.abc import Iterator
from datetime import date, datetime
from hashlib import sha256

from sidecar.core.errors import RecordConflict
from sidecar.core.executing.records import AttemptRecorded, CallSettled, ChildOpened
from sidecar.core.journal.facts import CallsCancelled
from tests.support.simulation.record.facts import INSTANT, RecordFacts, event_of, turn_of
from tests.support.simulation.store import Append


def nothing_acknowledged_is_lost(facts: RecordFacts) -> Iterator[str]:
    """An append that returned is on record by then, unaltered, and stays there."""
    disk = facts.seen.disk
    there = disk.records
    for append in disk.appends:
        if append.answered_at is None or append.refused is not None:
            continue
        for entry in append.ids:
            at = disk.durable_at.get(entry)
            if at is None or at > append.answered_at + INSTANT:
                yield f"{entry} was acknowledged at {append.answered_at}, durable at {at}"
        for record in append.records:
            if there.get(record.record_id) != record:
                yield f"{record.record_id} was acknowledged, and is on record with other contents, or gone"


def the_record_only_grows(facts: RecordFacts) -> Iterator[str]:
    """What is on record in the end is what was kept, each once."""
    disk = facts.seen.disk
    kept = [each.record.record_id for each in disk.journal]
    there = disk.records
    if len(set(kept)) != len(kept) or set(kept) != set(there):
        yield f"kept {len(kept)} records, {len(there)} are there"
    if any(there.get(each.record.record_id) != each.record for each in disk.journal):
        yield "a record was altered"


def appends_keep_their_order(facts: RecordFacts) -> Iterator[str]:
    """What a process hands over first of a turn is on record first, if both are kept and it handed neither over before.

    Two sidecars may end a turn at the same instant and write the same of it. What the other one put on record first has
    its place from there, so only what was kept of this process's own tells its order. Frames are rows beside the facts.
    """
    disk = facts.seen.disk
    place = {(kept.instance, kept.record.record_id): number for number, kept in enumerate(disk.journal)}
    seen: set[tuple[str, str]] = set()
    last: dict[tuple[str, str], int] = {}
    for append in disk.appends:
        facts_of = [record for record in append.records if not isinstance(record, AttemptRecorded)]
        ids = [(append.instance, record.record_id) for record in facts_of]
        first_time = not seen.intersection(ids)
        seen.update(ids)
        if not ids or not first_time or append.refused is not None or append.answered_at is None:
            continue
        places = [place[each] for each in ids if each in place]
        of_turn = append.instance, next(iter(append.turn_ids))
        if places and min(places) < last.get(of_turn, -1):
            yield f"{[each for _, each in ids]} of {append.instance} are at {places}, after {last[of_turn]}"
        last[of_turn] = max([last.get(of_turn, -1), *places])


def what_is_refused_is_not_kept(facts: RecordFacts) -> Iterator[str]:
    """Of a group that contradicts the record nothing is kept, unless somebody appends it again in a group that fits."""
    disk = facts.seen.disk
    appended: dict[str, int] = {}
    for append in disk.appends:
        for entry in append.ids:
            appended[entry] = appended.get(entry, 0) + 1
    for append in disk.appends:
        if not isinstance(append.refused, RecordConflict):
            continue
        for entry in append.ids:
            if appended[entry] == 1 and entry in disk.durable_at:
                yield f"{entry} was refused, and is on record"


def refusals_have_reasons(facts: RecordFacts) -> Iterator[str]:
    """Another sidecar's appends to the turn, an append that was not confirmed, or an outcome before a cancel."""
    disk = facts.seen.disk
    troubled: set[tuple[str, str]] = set()
    for append in sorted(disk.appends, key=lambda each: each.over_at):
        turns = append.turn_ids
        if isinstance(append.refused, RecordConflict) and not _has_a_reason(facts, append, turns, troubled):
            yield f"{append.ids} of {append.instance} was refused: {append.refused}"
        if append.refused is not None or append.answered_at is None:
            troubled.update((append.instance, turn) for turn in turns)


def _has_a_reason(facts: RecordFacts, append: Append, turns: set[str], troubled: set[tuple[str, str]]) -> bool:
    others = any(
        kept.instance != append.instance and turn_of(kept.record) in turns and kept.at <= append.over_at
        for kept in facts.seen.disk.journal
    )
    return others or _came_too_late(facts, append) or any((append.instance, turn) in troubled for turn in turns)


def _came_too_late(facts: RecordFacts, append: Append) -> bool:
    """Say whether a cancel was refused after an outcome in its dispatch."""
    cancelled = {each.body.dispatch_id for each in append.drafts if isinstance(each.body, CallsCancelled)}
    return any(
        isinstance(kept.record, CallSettled) and kept.record.dispatch_id in cancelled and kept.at <= append.over_at
        for kept in facts.seen.disk.journal
    )


# --- chains


def chains_verify(facts: RecordFacts) -> Iterator[str]:
    """The links of every child add up, from its row to its last event."""
    for child_id, opened in facts.opened.items():
        link = _hash(b"child\x1f", list(_fields(opened)))
        for number, kept in enumerate(facts.events.get(child_id, []), 1):
            event = event_of(kept)
            contents = [event.child_id, event.sequence, event.name, event.time, event.actor, event.summary]
            wanted = _hash(b"event\x1f", [link, *contents, event.details_json])
            if (event.sequence, event.previous_link, event.link) != (number, link, wanted):
                yield f"event {number} of {child_id} does not follow the one before"
            link = event.link


def roots_verify(facts: RecordFacts) -> Iterator[str]:
    """The running root of every instance and day takes in each fact that was kept, once, in order."""
    contents = facts.seen.disk.contents
    numbered = [
        (number, turn.day, fact)
        for turn in contents.turns.values()
        for number, fact in zip(turn.numbers, turn.facts, strict=True)
    ]
    roots: dict[tuple[str, date], tuple[int, bytes]] = {}
    for _, day, fact in sorted(numbered, key=lambda each: each[0]):
        count, root = roots.get((fact.by, day), (0, b""))
        roots[fact.by, day] = count + 1, sha256(b"root\x1f" + root + fact.link).digest()
    if roots != contents.roots:
        yield f"running roots of {sorted(roots)} do not add up"
    if sorted(number for number, _, _ in numbered) != list(range(1, contents.number + 1)):
        yield "the numbers of facts have gaps"


def _fields(opened: ChildOpened) -> Iterator[object]:
    for name in opened.__struct_fields__:
        yield getattr(opened, name)


def _hash(prefix: bytes, contents: list[object]) -> str:
    text = json.dumps(contents, separators=(",", ":"), ensure_ascii=False, default=_time)
    return sha256(prefix + text.encode()).hexdigest()


def _time(value: object) -> str:
    assert isinstance(value, datetime)
    return value.isoformat().replace("+00:00", "Z")
