"""Sends every audit event to every sink. Source: PF1-FR-10c, TN-85, DESIGN section 8.

The rows are recorded before anything is exported. One replica at a time exports, the first living one by id; another
one takes over rows that have waited too long. A replica that dies after an export and before its confirmation causes
a second delivery: sinks recognise it by the `event_id`. Each sink has its own loop (`sink_export.py`), so a sink that
is unavailable or hangs delays no other sink, up to `sink_export.MOST` rows.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

from sidecar.core.identifiers import InstanceId
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.audit.sink_export import SinkExport
from sidecar.operations.rollout.store.ports import RolloutRecorder, RolloutStore
from sidecar.policy.audit import AuditSink


class AuditExport:
    """The loops of all sinks, and their state for status and metrics.

    Args:
        sinks: by name, at least one.
        instance: the id of this replica.
    """

    def __init__(
        self,
        store: RolloutStore,
        sinks: Mapping[str, AuditSink],
        instance: InstanceId,
        clock: Clock,
        recorder: RolloutRecorder,
    ) -> None:
        """Begin without exported events."""
        # One mapping for all loops: each loop must see which rows the other sinks have accepted.
        taken: Mapping[str, set[int]] = {name: set() for name in sinks}
        self._exports = {
            name: SinkExport(
                name=name, sink=sink, store=store, instance=instance, clock=clock, recorder=recorder, taken=taken
            )
            for name, sink in sinks.items()
        }

    @property
    def waiting_seconds(self) -> float:
        """Age of the oldest event that not every sink has accepted; 0 if there is none."""
        return max(each.waiting_seconds for each in self._exports.values())

    @property
    def handed_on(self) -> Mapping[str, int]:
        """Number of exported events, by sink."""
        return {name: each.handed_on for name, each in self._exports.items()}

    def problems(self) -> Iterator[str]:
        """Yield a sentence about each sink that has not accepted its last batch."""
        for name, each in self._exports.items():
            if each.problem:
                waits = f"{each.waiting_seconds:.0f} s"
                yield f"the audit sink {name} takes nothing, and its oldest event waits for {waits}: {each.problem}"

    @property
    def loops(self) -> Sequence[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """One loop for each sink, with its name, to be kept running."""
        return [(f"auditexport {name}", each.run) for name, each in self._exports.items()]

    async def look(self) -> None:
        """Let every loop look once, whether it is backing off or not."""
        await asyncio.gather(*(each.look() for each in self._exports.values()))
