"""Whether every transition is told of: once effective, at least once exported under one id, none lost, none made up."""

from collections import Counter
from collections.abc import Iterator
from math import inf
from typing import Final

from sidecar.core.rollout.events import TransitionEvent
from tests.support.simulation.rollout.facts import RolloutFacts
from tests.support.simulation.rollout.journal import Bound, Counted, Effective, Exported

LONG_ENOUGH: Final = 60.0
"""Virtual seconds in which a sidecar that lives reaches a store that was away."""


def each_transition_is_one_row(facts: RolloutFacts) -> Iterator[str]:
    """What was committed is in the audit: each row once, in the order of the commits, none besides."""
    written = [(row.slot, row.body) for row in facts.seen.contents.audit.values()]
    wanted = [
        (step.committed.change.slot, each)
        for step in facts.steps
        for each in (*step.committed.change.transitions, *step.committed.change.events)
    ]
    if written != wanted:
        yield f"the audit has {len(written)} rows, committed were {len(wanted)}"
    moves = Counter(body.event_id for _, body in written if isinstance(body, TransitionEvent))
    yield from (f"{event_id} is in the audit {times} times" for event_id, times in moves.items() if times > 1)


def transitions_take_effect_once(facts: RolloutFacts) -> Iterator[str]:
    """In the end each is effective, once, at a time at which a turn was bound; and no sidecar counted it twice."""
    rows = [row for row in facts.seen.contents.audit.values() if isinstance(row.body, TransitionEvent)]
    binds = [entry.wall for _, _, entry in facts.seen.journal.of(Bound) if not entry.by_token]
    present = {each.content for slot in facts.states[-1].slots.values() for each in slot.definitions}
    revised = {event.detail for step in facts.steps for event in step.committed.change.events}
    for row in rows:
        assert isinstance(row.body, TransitionEvent)
        if row.effective_at is None:
            yield f"{row.body.event_id} never took effect"
    news = Counter(entry.event_id for _, _, entry in facts.seen.journal.of(Effective) if entry.news)
    yield from (f"{event_id} took effect {times} times" for event_id, times in news.items() if times > 1)
    for _, at, entry in facts.seen.journal.of(Effective):
        content = entry.event_id.rpartition("/")[0]
        if entry.news and content in present - revised and not any(abs(entry.wall - bound) < 1e-6 for bound in binds):
            yield f"{entry.event_id} took effect at {entry.wall:.3f} (told at {at:.3f}), when nothing was bound"
    told = Counter(entry.of for _, _, entry in facts.seen.journal.of(Counted) if entry.what == "transitioned")
    yield from (f"{event_id} was counted {times} times" for event_id, times in told.items() if times > 1)
    ended = {entry.life: at for _, at, entry in facts.lived if not entry.began}
    for _, at, entry in facts.seen.journal.of(Effective):
        if entry.news and not told[entry.event_id] and ended.get(entry.life, inf) > at + LONG_ENOUGH:
            yield f"{entry.event_id} was noted by {entry.life}, which lived on and counted nothing"


def every_row_is_exported(facts: RolloutFacts) -> Iterator[str]:
    """In the end each row was handed on, always under the same id, and nothing that is not on record."""
    ids: dict[int, set[str]] = {}
    for _, _, entry in facts.seen.journal.of(Exported):
        ids.setdefault(entry.row, set()).add(entry.event_id)
    rows = facts.seen.contents.audit
    for number, row in rows.items():
        if number not in ids:
            yield f"row {number} was never exported: {row.body}"
        elif isinstance(row.body, TransitionEvent) and ids[number] != {row.body.event_id}:
            yield f"row {number} was exported as {sorted(ids[number])}"
    yield from (f"row {number} has several ids: {sorted(each)}" for number, each in ids.items() if len(each) > 1)
    yield from (f"row {number} was exported and is not on record" for number in ids if number not in rows)
