"""The loops that hand audit events on, in virtual time: what one sink does is no other sink's business."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.core.identifiers import DefinitionId, Digest, InstanceId, Slot
from sidecar.core.rollout.events import RolloutEvent, RolloutEventKind
from sidecar.operations.rollout.audit.export import AuditExport
from sidecar.operations.rollout.store.ports import RolloutWrite
from sidecar.policy.audit import AuditEntry, AuditSink
from tests.support.harness import KeepingRecorder
from tests.unit.flags.virtual_time import LoopClock, in_virtual_time

MINUTES: Final = 60.0


class TimedSink:
    """Takes events and notes when; fails or hangs when told to."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.taken: dict[str, float] = {}
        self.asked: list[float] = []
        self.fails = False
        self.hangs = False

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Take them, or not."""
        now = asyncio.get_running_loop().time()
        self.asked.append(now)
        if self.fails:
            raise IsADirectoryError("the path is a directory")
        if self.hangs:
            await asyncio.Event().wait()
        self.taken.update({cast("RolloutEvent", entry.body).request_id: now for entry in entries})

    async def close(self) -> None:
        """Hold nothing open."""


class Exporting:
    """A store to which a test adds events, and what exports them."""

    def __init__(self, **sinks: TimedSink) -> None:
        """Begin without events."""
        clock = LoopClock()
        self.store = MemoryRollouts(clock)
        given = cast("dict[str, AuditSink]", sinks)
        self.export = AuditExport(self.store, given, InstanceId("a"), clock, cast("Any", KeepingRecorder()))
        self._clock = clock

    async def happens(self, request_id: str) -> float:
        """Put an event on record; returns when that was."""
        event = RolloutEvent(
            slot=Slot("shop"),
            subagent_id=DefinitionId("shop"),
            digest=Digest("d"),
            what=RolloutEventKind.REFUSED,
            at=self._clock.now(),
            actor="alice",
            reason="a step",
            request_id=request_id,
        )
        await self.store.write(RolloutWrite(slot=Slot("shop"), expected_revision=0, events=(event,)))
        return asyncio.get_running_loop().time()


@asynccontextmanager
async def running(export: AuditExport) -> AsyncIterator[None]:
    """Keep the loops running, as the supervisor of a process does."""
    loops = [asyncio.ensure_future(run()) for _, run in export.loops]
    try:
        yield
    finally:
        for each in loops:
            each.cancel()
        await asyncio.gather(*loops, return_exceptions=True)


def test_an_event_reaches_a_healthy_sink_within_a_second_though_another_one_has_failed_for_long() -> None:
    """The path of one sink is a directory for an hour: it is asked once a minute, the other is handed on as ever."""

    async def scene() -> None:
        log, jsonl = TimedSink(), TimedSink()
        jsonl.fails = True
        around = Exporting(log=log, jsonl=jsonl)
        await around.happens("first")
        async with running(around.export):
            await asyncio.sleep(60 * MINUTES)
            at = await around.happens("second")
            await asyncio.sleep(2)
        assert log.taken["second"] - at <= 1
        assert len(jsonl.asked) <= 66  # 1, 2, 4, ... 60, 60 seconds apart
        assert around.export.waiting_seconds >= 60 * MINUTES

    in_virtual_time(scene())


def test_a_sink_that_hangs_delays_nobody_while_it_hangs() -> None:
    """It is given ten seconds for its batch; an event that comes in them reaches the other one within a second."""

    async def scene() -> None:
        log, hanging = TimedSink(), TimedSink()
        hanging.hangs = True
        around = Exporting(log=log, hanging=hanging)
        await around.happens("first")
        async with running(around.export):
            await asyncio.sleep(3)
            at = await around.happens("second")
            await asyncio.sleep(1.5)
            assert len(hanging.asked) == 1, "it still hangs in its first batch"
        assert log.taken["second"] - at <= 1

    in_virtual_time(scene())


def test_a_sink_that_is_back_gets_each_event_once_and_each_is_ticked_off() -> None:
    """Two events while it was away, another one afterwards; the other sink was given each as it came."""

    async def scene() -> None:
        log, jsonl = TimedSink(), TimedSink()
        jsonl.fails = True
        around = Exporting(log=log, jsonl=jsonl)
        async with running(around.export):
            await around.happens("first")
            await asyncio.sleep(10 * MINUTES)
            await around.happens("second")
            jsonl.fails = False
            await asyncio.sleep(2 * MINUTES)
            at = await around.happens("third")
            await asyncio.sleep(2)
        assert list(jsonl.taken) == list(log.taken) == ["first", "second", "third"]
        assert jsonl.taken["third"] - at <= 1, "once it has taken something, it is asked every second again"
        assert around.export.handed_on == {"log": 3, "jsonl": 3}
        assert await around.store.unexported(10) == []
        assert around.export.waiting_seconds == 0

    in_virtual_time(scene())
