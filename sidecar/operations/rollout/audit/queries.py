"""Answers from the stored audit when a sub-agent was active for a cohort. Source: PF1-D-50.

A cohort is one user, by bucket, or a share of all users: the first `share` basis points. Flags are not considered:
their history belongs to the flag backend, not to the rollout.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

import msgspec

from sidecar.core.errors import InvalidRequest, UnknownDefinition
from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.bucketing import WHOLE, bucket_of
from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.past_rollout import as_of
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout.audit.audit_log import SlotHistory, past_of
from sidecar.operations.rollout.store.ports import AuditRow, RolloutStore


class ActivityQuery(msgspec.Struct, frozen=True, kw_only=True):
    """When was a sub-agent active for a cohort?

    Attributes:
        slot: empty: the one that it fills.
        key: a principal; empty: `share` says which cohort.
        share: basis points, 1 to 10,000: all users whose bucket is below.
    """

    definition_id: DefinitionId
    slot: Slot = Slot("")
    key: str = ""
    share: int = 0


class Period(msgspec.Struct, frozen=True):
    """A time in which a sub-agent was active for the whole of a cohort.

    Attributes:
        since: None: earlier than the audit is kept.
        until: None: it still is.
        ramp: basis points when it began.
        request_id: of the step that began it; the audit events of that step have it, too. Empty with no `since`.
    """

    since: datetime | None
    until: datetime | None
    ramp: int
    request_id: str


class ActivityReport(msgspec.Struct, frozen=True):
    """When a sub-agent was active for a cohort.

    Attributes:
        periods: oldest first; empty: never.
        known_from: the earliest time that the audit still covers; None: it covers everything.
    """

    slot: Slot
    periods: tuple[Period, ...]
    known_from: datetime | None


class ReadActivity(msgspec.Struct, frozen=True):
    """The operation."""

    store: RolloutStore

    async def __call__(self, asked: ActivityQuery) -> ActivityReport:
        """Return the periods in which the definition served the cohort.

        Raises:
            InvalidRequest: neither a key nor a share, or both.
            UnknownDefinition, StoreUnavailable.
        """
        if bool(asked.key) == bool(asked.share) or not 0 <= asked.share <= WHOLE:
            raise InvalidRequest(f"name a cohort: either a key, or a share from 1 to {WHOLE} basis points")
        for rollout in await self.store.rollouts():
            if asked.slot in {"", rollout.slot} and rollout.of_id(asked.definition_id):
                past = await past_of(self.store, rollout.slot)
                return ActivityReport(rollout.slot, tuple(_periods(rollout, past, asked)), past.known_from)
        raise UnknownDefinition(f"no rollout has a definition {asked.definition_id[:60]!r}")


def _periods(present: SlotRollout, past: SlotHistory, asked: ActivityQuery) -> Iterator[Period]:
    """Yield the periods in which the definition id served the cohort, oldest first, from the audit of its slot."""
    # If retention removed rows, the first period may have begun before the audit.
    before = 0 if past.beginning is None else _ramp_for(past.beginning, asked)
    open_period = Period(None, None, before, "") if before else None
    rollout = past.beginning
    for moment in _moments(past.rows):
        # Step by step from the state before: replaying all rows for each moment would take quadratic time.
        rollout = as_of(present, moment, rollout)
        ramp = _ramp_for(rollout, asked)
        if ramp and open_period is None:
            open_period = Period(moment[-1].at, None, ramp, moment[-1].request_id)
        elif not ramp and open_period is not None:
            yield msgspec.structs.replace(open_period, until=moment[-1].at)
            open_period = None
    if open_period is not None:
        yield open_period


def _moments(rows: Sequence[AuditRow]) -> Iterator[Sequence[TransitionEvent | RolloutEvent]]:
    """Yield the events of each step together: one transaction wrote them, so they took effect at the same time."""
    steps = groupby((row.body for row in rows), key=lambda body: (body.request_id, body.at))
    return (list(step) for _, step in steps)


def _ramp_for(rollout: SlotRollout, asked: ActivityQuery) -> int:
    """Return the ramp under which a definition id serves the whole cohort; 0: it does not."""
    # A share is a range of buckets. It is served only if both of its ends are, because the buckets of a ramp have no
    # gaps.
    lowest, highest = 0, asked.share - 1
    if asked.key:  # the salt of a slot changes with a new rollout
        lowest = highest = bucket_of(rollout.salt, asked.key)
    digests = (facts.digest for facts in rollout.of_id(asked.definition_id))
    return max((_reach(rollout, digest, lowest, highest) for digest in digests), default=0)


def _reach(rollout: SlotRollout, digest: str, lowest: int, highest: int) -> int:
    """Return the ramp under which all buckets from `lowest` to `highest` are served by a definition; 0: not all are."""
    facts = next((each for each in rollout.definitions.values() if each.digest == digest), None)
    if facts is None or rollout.active is None or facts.killed or facts.state is not LifecycleState.PROMOTE:
        return 0
    active = rollout.definitions[rollout.active]
    if active.digest == digest:
        return facts.ramp if highest < facts.ramp else 0
    outside = rollout.target == digest and lowest >= active.ramp  # serves users outside the active ramp
    return facts.ramp if outside and highest < facts.ramp else 0
