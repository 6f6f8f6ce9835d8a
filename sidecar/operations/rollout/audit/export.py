"""Hands audit events to every sink, and forgets none. Source: PF1-FR-10c, TN-85, DESIGN section 8.

The rows are on record before anything is exported. One replica at a time hands them on, the first of those alive by its
id; another one takes over what has waited for long. What a replica handed on just before it died may come twice: sinks
know it by its `event_id`. Each sink has a loop of its own (`sink_export.py`): one that is away, or hangs, neither keeps
a row from the others nor delays it, up to `sink_export.MOST` of them.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from sidecar.core.identifiers import InstanceId
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.audit.sink_export import SinkExport
from sidecar.operations.rollout.store.ports import RolloutRecorder, RolloutStore
from sidecar.policy.audit import AuditSink


class AuditExport:
    """The loops, and what is to be seen of them.

    Args:
        sinks: by name, at least one.
        instance: of this replica.
    """

    def __init__(
        self,
        store: RolloutStore,
        sinks: Mapping[str, AuditSink],
        instance: InstanceId,
        clock: Clock,
        recorder: RolloutRecorder,
    ) -> None:
        """Begin with nothing handed on."""
        taken: Mapping[str, set[int]] = {name: set() for name in sinks}
        self._exports = {
            name: SinkExport(
                name=name, sink=sink, store=store, instance=instance, clock=clock, recorder=recorder, taken=taken
            )
            for name, sink in sinks.items()
        }

    @property
    def waiting_seconds(self) -> float:
        """Age of the oldest event that could not be handed to every sink; 0 while all is well."""
        return max(each.waiting_seconds for each in self._exports.values())

    @property
    def handed_on(self) -> Mapping[str, int]:
        """How many events were handed on, by sink."""
        return {name: each.handed_on for name, each in self._exports.items()}

    @property
    def loops(self) -> Sequence[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """One loop for each sink, with its name, to be kept running."""
        return [(f"auditexport {name}", each.run) for name, each in self._exports.items()]

    async def look(self) -> None:
        """Let every loop look once, whether it is backing off or not."""
        await asyncio.gather(*(each.look() for each in self._exports.values()))
