"""Reads the audit of a file that a sidecar may have open, for verifying."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import apsw

from sidecar.adapters.rollout_sqlite import reading
from sidecar.core.verifying.audit_chain import AuditHead, LinkedRow
from sidecar.operations.rollout.store.audit_marker import AuditMarker


class OfflineAudit:
    """The reads of the audit for verifying.

    Args:
        read: does work on one state of the file.
    """

    def __init__(self, read: Callable[[Callable[[apsw.Connection], Any]], Any]) -> None:
        self._read = read

    async def audit_head(self) -> AuditHead:
        """Return the head of the chain."""
        head: AuditHead = self._read(reading.audit_head_in)
        return head

    async def linked_audit(self, after: int, limit: int) -> Sequence[LinkedRow]:
        """Return the next rows."""
        rows: Sequence[LinkedRow] = self._read(partial(reading.linked_audit_in, after=after, limit=limit))
        return rows

    async def audit_markers(self) -> tuple[AuditMarker, ...]:
        """Return every marker."""
        markers: tuple[AuditMarker, ...] = self._read(reading.markers_in)
        return markers
