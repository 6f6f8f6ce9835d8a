"""Reads the audit of rollouts in a file that a sidecar may have open, for `sidecar verify-log`."""

from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from sidecar.adapters.rollout_tables import AuditReads
from sidecar.adapters.sqlite.statements import run
from sidecar.adapters.statements import Steps

Result = TypeVar("Result")


class OfflineAudit(AuditReads):
    """The reads of the audit for verifying.

    Args:
        read: runs work on one snapshot of the file.
    """

    def __init__(self, read: Callable[[Callable[[apsw.Connection], Any]], Any]) -> None:
        self._read_now = read

    async def _read(self, steps: Steps[Result]) -> Result:
        result: Result = self._read_now(lambda connection: run(connection, steps))
        return result
