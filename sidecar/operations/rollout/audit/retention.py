"""Removes old audit rows once a day, under a signed marker. Nothing else deletes audit rows.

Source: PF1-NFR-3, SX-38.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final, Protocol

import msgspec

from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.past_rollout import as_of
from sidecar.operations.ports import Clock
from sidecar.operations.record.checkpoint_ports import CheckpointSigner
from sidecar.operations.record.retention import DAY, LEAST_AUDIT, RETENTION_FAILED, RetentionRules
from sidecar.operations.rollout.audit.audit_log import all_rows
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.ports import AuditQuery, AuditRow

LARGEST_REMOVAL: Final = 1000
"""The most rows removed in one transaction. Other writers continue between two transactions."""


class OldAudit(msgspec.Struct, frozen=True):
    """The oldest audit rows, up to `number`, described so that a marker can be compared with them.

    Attributes:
        number: of the last row.
        rows: how many they are.
        content: SHA-256 over number and body of each row, as they are stored; 64 hex digits.
        link: the link of the last row.
    """

    number: int
    rows: int
    content: str
    link: str


def old_audit_of(rows: Sequence[tuple[int, str, str]]) -> OldAudit | None:
    """Return the description of rows (number, body as JSON, link), in order; None: there are no rows."""
    if not rows:
        return None
    content = sha256()
    for number, body, _ in rows:
        # With separators that JSON text cannot contain: otherwise two different lists of rows could have the same hash.
        content.update(f"{number}\x1f{body}\x1e".encode())
    return OldAudit(rows[-1][0], len(rows), content.hexdigest(), rows[-1][2])


class RolloutArchive(Protocol):
    """The methods of a rollout store that retention needs. Each can raise `StoreUnavailable`."""

    async def rollouts(self) -> Sequence[SlotRollout]:
        """Return all rollouts, by slot."""
        ...

    async def audit(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Return audit rows, oldest first."""
        ...

    async def old_audit(self, before: datetime) -> OldAudit | None:
        """Return the rows that may be removed: the oldest, up to the first that is not exported or not before `before`.

        At most `LARGEST_REMOVAL` rows; None: no row may be removed.
        """
        ...

    async def remove_audit(self, marker: AuditMarker) -> int:
        """Store the marker and remove its rows, in one transaction; return the number of removed rows.

        Stored answers to requests before the marker's `before` are removed, too.

        Raises:
            RecordConflict: the marker differs from the rows, or would leave less than 90 days before `made_at`.
        """
        ...

    async def audit_markers(self) -> tuple[AuditMarker, ...]:
        """Return every marker, oldest first."""
        ...


def check_marker(marker: AuditMarker, old: OldAudit | None) -> None:
    """Raise `RecordConflict` unless a marker describes exactly the rows that may be removed."""
    if marker.before > marker.made_at - LEAST_AUDIT:
        raise RecordConflict(f"audit rows are kept for {LEAST_AUDIT.days} days or more")
    # Compared in the transaction of the removal: the signed marker must describe exactly the rows that go.
    if old is None or old != OldAudit(marker.number, marker.rows, marker.content, marker.link):
        raise RecordConflict("the marker does not say which audit rows are there")


def marker_of(
    old: OldAudit, before: datetime, now: datetime, signer: CheckpointSigner, standing: Sequence[SlotRollout] = ()
) -> AuditMarker:
    """Return the signed marker for rows that are to be removed; `standing`: the rollouts after these rows."""
    # Signed as it is stored, but with an empty signature, which cannot be part of what it signs.
    unsigned = AuditMarker(
        number=old.number,
        rows=old.rows,
        content=old.content,
        link=old.link,
        before=before,
        made_at=now,
        standing=tuple(standing),
        key_id=signer.key_id,
        signature="",
    )
    return msgspec.structs.replace(unsigned, signature=signer.sign(unsigned.signed_bytes()))


class AuditRetention:
    """Removes audit rows that are older than the rules allow.

    Args:
        archive: the store.
        rules: `audit` is the time for which rows are kept, at least 90 days.
        signer: signs the markers.
        report: receives the kind and the text of each failure.

    Attributes:
        removed: the number of removed rows.
    """

    def __init__(
        self,
        archive: RolloutArchive,
        rules: RetentionRules,
        signer: CheckpointSigner,
        clock: Clock,
        report: Callable[[str, str], None],
    ) -> None:
        """Start with no removed rows."""
        self._archive = archive
        self._rules = rules
        self._signer = signer
        self._clock = clock
        self._report = report
        self.removed = 0

    async def run(self) -> None:
        """Remove at the start, and once a day."""
        while True:
            await self.remove()
            await asyncio.sleep(DAY.total_seconds())

    async def remove(self) -> None:
        """Remove the rows that are old enough. A failure is reported as an anomaly; the next day tries again."""
        now = self._clock.now()
        before = now - self._rules.audit
        try:
            # One removal after the other, each with a marker of its own: `old_audit` returns a limited number of rows.
            while (old := await self._archive.old_audit(before)) is not None:
                # Before the removal: afterwards the rows from which the state follows no longer exist.
                standing = await self._state_after(old.number)
                marker = marker_of(old, before, now, self._signer, standing)
                # The store compares the marker with its rows again: another sidecar may have removed them meanwhile.
                self.removed += await self._archive.remove_audit(marker)
        except (StoreUnavailable, RecordConflict) as problem:
            self._report(RETENTION_FAILED, str(problem))

    async def _state_after(self, number: int) -> Sequence[SlotRollout]:
        """Return the state of the rollouts after the row `number`, which is removed with all rows before it."""
        markers = await self._archive.audit_markers()
        # Where the last removal ended: the rows before it no longer exist.
        state_before = {each.slot: each for each in markers[-1].standing} if markers else {}
        removed = await all_rows(self._archive, AuditQuery(), until=number)
        slots = dict.fromkeys((*state_before, *(row.slot for row in removed)))
        return [
            as_of(present, [row.body for row in removed if row.slot == present.slot], state_before.get(present.slot))
            for present in await self._archive.rollouts()
            if present.slot in slots
        ]
