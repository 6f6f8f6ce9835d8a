"""Records refused steps of authenticated callers that were refused before the rules were applied.

These are a genuine token whose role may not take the step, a key that does not allow the token's contents, an
outdated revision, and a request id that was used before. Refusals by `steps/take_step.py` are stored with their
answer. The answer never waits for the row: a background task writes it. If the store is unavailable, the row is lost,
counted and logged.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from sidecar.core.errors import RevisionConflict, StoreUnavailable
from sidecar.core.rollout.events import RolloutEventKind
from sidecar.core.rollout.step import event_about
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.ports import Clock
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rollout.definition_lookup import DefinitionMatch, match_in
from sidecar.operations.rollout.requests import StepRequest
from sidecar.operations.rollout.store.ports import RolloutRecorder, RolloutStore, RolloutWrite
from sidecar.operations.rollout.stored_answers import AuditContext, actor_of

EACH: Final = timedelta(minutes=10)
"""The least time between two rows about one caller, one verb and one definition."""
MOST: Final = 60
"""The most rows within that time, of all callers together: a key that allows any subject must not fill the record."""
LONGEST_WRITE: Final = 2.0
"""Seconds for the store."""
TRIES: Final = 5
"""How often the write of one row is tried at most, because other writes may come first."""


class RefusedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was refused.

    Attributes:
        verb: what was called, e.g. `Kill`.
        asked: the request, with the key and the role of the caller, as far as they are known; its texts are bounded.
        actor: the subject of a genuine token; empty if only its key is known.
        why: reason of the refusal and its message.
    """

    verb: str
    asked: StepRequest
    actor: str
    why: str

    @property
    def named(self) -> StepRequest:
        """The request without its digest, so that it finds the definition in any content."""
        return msgspec.structs.replace(self.asked, digest="")


class RateLimit:
    """Admits one event of each kind in a period, and a limited number of all kinds together.

    Args:
        each: the period.
        most: the most admitted events of all kinds within the period.
    """

    def __init__(self, each: timedelta, most: int) -> None:
        """Begin without events."""
        self._each = each.total_seconds()
        self._most = most
        # By kind: when an event was last admitted, and how many were left out since then.
        self._seen: dict[Hashable, tuple[float, int]] = {}

    def take(self, kind: Hashable, now: float) -> int | None:
        """Return the number of events of a kind that were left out before this one; None: this one is left out, too.

        Args:
            kind: events with equal kinds are limited together.
            now: seconds of a monotonic clock.
        """
        # Entries stay for two periods: in the second one, the next event of the kind still learns how many were left
        # out. Each period adds at most `most` entries, so there are never more than twice as many.
        self._seen = {each: seen for each, seen in self._seen.items() if now < seen[0] + 2 * self._each}
        last = self._seen.get(kind)
        if last is not None and now < last[0] + self._each:
            self._seen[kind] = (last[0], last[1] + 1)
            return None
        # Not counted as left out: a further kind would be one more entry in memory, and this limit bounds the memory.
        if sum(now < at + self._each for at, _ in self._seen.values()) >= self._most:
            return None
        self._seen[kind] = (now, 0)
        return 0 if last is None else last[1]


class RecordRefusals:
    """Accepts notes of refusals, and writes them in a loop.

    Args:
        store: keeps the audit.
        views: the present view; unknown definitions get no row.
        clock: dates the rows and limits their rate.
        recorder: reports a note that is lost.
    """

    def __init__(
        self, store: RolloutStore, views: Callable[[], RolloutView], clock: Clock, recorder: RolloutRecorder
    ) -> None:
        """Begin without notes."""
        self._store = store
        self._views = views
        self._clock = clock
        self._recorder = recorder
        self._rate = RateLimit(EACH, MOST)
        self._waiting: deque[tuple[RefusedStep, datetime]] = deque()
        self._news = asyncio.Event()

    def note(self, refused: RefusedStep) -> None:
        """Queue a refusal for the audit, unless there was one like it lately. Never raises, never waits."""
        # A name that does not exist has no slot whose audit could take the row.
        if match_in(self._views().slots, refused.named) is None:
            return
        kind = (refused.actor, refused.asked.actor_key, refused.verb, refused.asked.definition_id)
        left_out = self._rate.take(kind, self._clock.monotonic())
        if left_out is None:
            return
        more = f"; {left_out} like it were left out before" if left_out else ""
        noted = msgspec.structs.replace(refused, why=f"{refused.why}; asked for: {refused.verb}{more}")
        # With the time of the refusal: the row may be written seconds later.
        self._waiting.append((noted, self._clock.now()))
        self._news.set()

    async def run(self) -> None:
        """Write notes as they arrive; the supervisor owns this loop."""
        while True:
            await self._news.wait()
            # Before the writing: a note that comes during it sets the event again.
            self._news.clear()
            await self.write()

    async def write(self) -> None:
        """Write the waiting notes. A note that cannot be written is reported and dropped."""
        while self._waiting:
            refused, at = self._waiting.popleft()
            if isinstance(await read_within(self._write_one(refused, at), LONGEST_WRITE), StoreUnavailable):
                self._recorder.anomaly("refusal_not_on_record", f"{refused.verb} of {refused.asked.definition_id}")

    async def _write_one(self, refused: RefusedStep, at: datetime) -> None:
        """Write one row. Raises `StoreUnavailable`."""
        for _ in range(TRIES):
            slots = {each.slot: each for each in await self._store.rollouts()}
            found = match_in(slots, refused.named)
            if found is None:
                return  # the definition no longer exists
            # Read again in each round: the revision must be the newest, or the store refuses the row.
            try:
                await self._store.write(_write(found, refused, at))
            except RevisionConflict:
                continue
            return
        raise StoreUnavailable(f"the rollout of {refused.asked.definition_id} is changed all the time")


def _write(found: DefinitionMatch, refused: RefusedStep, at: datetime) -> RolloutWrite:
    """Return the write of one audit row; the rollout itself does not change."""
    rollout, facts = found
    # Without the context of the time: the row is written later, when configuration and flags may have changed.
    by = actor_of(refused.asked, refused.actor, at, AuditContext("", ()))
    event = event_about(rollout, facts, RolloutEventKind.REFUSED, by, to=facts.ramp, detail=refused.why)
    return RolloutWrite(slot=rollout.slot, expected_revision=rollout.revision, events=(event,))
