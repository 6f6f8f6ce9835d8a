"""Answers from the stored audit when a sub-agent was active for a cohort. Source: PF1-D-50.

A cohort is one key, by its bucket, or a share of all: the first `share` basis points. Flags are not part of it: that a
flag was off for a while is its backend's history, not the rollout's.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from sidecar.core.errors import InvalidRequest, UnknownSubagent
from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.bucketing import WHOLE, bucket_of
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.past import as_of
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout.auditing import all_rows
from sidecar.operations.rollout.ports import AuditQuery, AuditRow, RolloutStore


class ActiveFor(msgspec.Struct, frozen=True, kw_only=True):
    """When was a sub-agent active for a cohort?

    Attributes:
        slot: empty: the one that it fills.
        key: a principal; empty: `share` says which cohort.
        share: basis points, 1 to 10,000: everybody whose bucket is below.
    """

    definition_id: DefinitionId
    slot: Slot = Slot("")
    key: str = ""
    share: int = 0


class Period(msgspec.Struct, frozen=True):
    """A time in which a sub-agent was active for the whole of a cohort.

    Attributes:
        until: None: it still is.
        ramp: basis points when it began.
        request_id: of the step that began it; what other records of that step go by.
    """

    since: datetime
    until: datetime | None
    ramp: int
    request_id: str


class ReadActivity:
    """The operation."""

    def __init__(self, store: RolloutStore) -> None:
        """Join the parts."""
        self._store = store

    async def __call__(self, asked: ActiveFor) -> Sequence[Period]:
        """Return the periods, oldest first; empty: never, as far as the audit is kept.

        Raises:
            InvalidRequest: neither a key nor a share, or both.
            UnknownSubagent, StoreUnavailable.
        """
        if bool(asked.key) == bool(asked.share) or not 0 <= asked.share <= WHOLE:
            raise InvalidRequest(f"name a cohort: either a key, or a share from 1 to {WHOLE} basis points")
        for rollout in await self._store.rollouts():
            if asked.slot in {"", rollout.slot} and rollout.of_id(asked.definition_id):
                rows = await all_rows(self._store, AuditQuery(slot=rollout.slot))
                return list(_periods(rollout, rows, asked))
        raise UnknownSubagent(f"no rollout has a definition {asked.definition_id[:60]!r}")


def _periods(present: SlotRollout, rows: Sequence[AuditRow], asked: ActiveFor) -> Iterator[Period]:
    """Go through the audit of a slot, and say when the cohort came to be served and when no longer."""
    lowest, highest = 0, asked.share - 1
    if asked.key:
        lowest = highest = bucket_of(present.salt, asked.key)
    open_period: Period | None = None
    for moment in _moments(rows):
        then = as_of(present, [row.body for row in rows if row.number <= moment.number])
        ramp = max((_reach(then, digest, lowest, highest) for digest in _of_id(then, asked)), default=0)
        if ramp and open_period is None:
            open_period = Period(moment.body.at, None, ramp, moment.body.request_id)
        elif not ramp and open_period is not None:
            yield msgspec.structs.replace(open_period, until=moment.body.at)
            open_period = None
    if open_period is not None:
        yield open_period


def _moments(rows: Sequence[AuditRow]) -> Iterator[AuditRow]:
    """Yield the last row of each step: what one transaction wrote happened at once."""
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        same = following is not None and following.body.request_id == row.body.request_id
        if not same or following is None or following.body.at != row.body.at:
            yield row


def _of_id(then: SlotRollout, asked: ActiveFor) -> Iterator[str]:
    return (facts.digest for facts in then.of_id(asked.definition_id))


def _reach(then: SlotRollout, digest: str, lowest: int, highest: int) -> int:
    """Return the ramp under which all buckets from `lowest` to `highest` are served by a definition; 0: not all are."""
    facts = next((each for each in then.definitions.values() if each.digest == digest), None)
    if facts is None or then.active is None or facts.killed or facts.state is not LifecycleState.PROMOTE:
        return 0
    active = then.definitions[then.active]
    if active.digest == digest:
        return facts.ramp if highest < facts.ramp else 0
    behind = then.target == digest and lowest >= active.ramp  # served whom the active one does not serve
    return facts.ramp if behind and highest < facts.ramp else 0
