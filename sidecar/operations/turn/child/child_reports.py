"""Writes the report of each child after its outcome is durable, without delaying or failing the turn."""

from typing import Final, Protocol

from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.executing.report import ChildReport, report_text
from sidecar.core.executing.report_paths import report_path
from sidecar.core.identifiers import TurnId
from sidecar.operations.ports import Recorder, Spawner
from sidecar.operations.record.ports import RecordReads
from sidecar.operations.turn.state.child import Child

MOST_AT_ONCE: Final = 64
"""Reports that may wait for a slow disk; further ones are omitted and counted."""


class ReportFiles(Protocol):
    """A directory for reports."""

    async def write(self, path: tuple[str, ...], text: str) -> None:
        """Write a file below the directory atomically, replacing an existing one. May raise any exception."""


class ChildReports:
    """The reports of this process. `files` None: no reports are written."""

    def __init__(self, files: ReportFiles | None, record: RecordReads, *, spawner: Spawner, recorder: Recorder) -> None:
        self._files = files
        self._record = record
        self._spawner, self._recorder = spawner, recorder
        self._writing = 0

    def write(self, child: Child, outcome: CallOutcome) -> None:
        """Start writing a report. Does not wait."""
        if self._files is None:
            return
        if self._writing >= MOST_AT_ONCE:
            self._recorder.anomaly("report_left_out", f"{child.child_id}: {MOST_AT_ONCE} others are being written")
            return
        # Counted before the task starts: many children may settle in one pass of the event loop.
        self._writing += 1
        self._spawner.spawn(self._write(self._files, child, outcome), f"report {child.child_id}")

    async def _write(self, files: ReportFiles, child: Child, outcome: CallOutcome) -> None:
        try:
            contract = child.contract
            # Inside `try`: the pattern comes from the card and may give no valid path.
            path = report_path(contract.parent.run_id, contract.outputs.report_path_pattern, contract.parent.step_idx)
            events = await self._record.child_events(TurnId(contract.parent.run_id), child.child_id)
            report = ChildReport(
                child.child_id, contract, outcome, child.ledger.tool_calls, child.ledger.tokens, tuple(events)
            )
            await files.write(path, report_text(report))
        except Exception as error:  # noqa: BLE001  a failed report must not stop the turn
            self._recorder.anomaly("report_failed", f"{child.child_id}: {type(error).__name__}")
        finally:
            self._writing -= 1
