"""Who finishes in the same pass of the loop shares one append and one frame; nobody waits for another's append."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta

import pytest
from typing_extensions import override

from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.dispatching.frames import Frame
from sidecar.core.identifiers import CallId
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import CallsSettled, DispatchOpened
from sidecar.operations.requests import JoinPolicy
from sidecar.operations.turn.deliver_frames import deliver_frames
from sidecar.policy.protocols import RunFinished, RunnerEvent, RunRequest, StatusReported
from tests.support.fake_runner import ScriptedRunner
from tests.unit.dispatching.test_time_of_a_fan_out import (
    SLOTS,
    TOGETHER,
    begun_dispatch,
    operations,
    thinks_for,
)
from tests.unit.flags.virtual_time import in_virtual_time


class Groups(MemoryStore):
    """Notes when each group comes, and which calls it settles; may take some seconds for each."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._calls: tuple[CallId, ...] = ()
        self._seen: set[bytes] = set()
        self.came: list[tuple[float, list[str]]] = []

    @override
    async def append(self, records: Sequence[Draft]) -> None:
        new = [each for each in records if each.salt not in self._seen]
        self._seen.update(each.salt for each in new)  # what still waits may stand in front again
        bodies = [each.body for each in new]
        for body in bodies:
            self._calls = body.asked.call_ids if isinstance(body, DispatchOpened) else self._calls
        settled = [
            str(self._calls[call.place]) for body in bodies if isinstance(body, CallsSettled) for call in body.calls
        ]
        self.came.append((asyncio.get_running_loop().time(), settled))
        if self._seconds:
            await asyncio.sleep(self._seconds)
        await super().append(records)


class Frames:
    """A listener that keeps what it is sent, and when."""

    grace = timedelta(0)

    def __init__(self) -> None:
        self.frames: list[tuple[float, Frame]] = []

    async def send(self, frame: Frame) -> None:
        """Take a frame at once."""
        self.frames.append((asyncio.get_running_loop().time(), frame))


async def at_once(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
    """Answer without waiting for anything."""
    yield StatusReported("searching_offers")
    yield RunFinished(data_unavailable=True)


async def played(
    times: Sequence[float], storing: float = 0.0, join: JoinPolicy = TOGETHER
) -> tuple[list[tuple[float, list[str]]], list[tuple[float, Frame]]]:
    """Let sub-agents think for so many seconds each; return the groups that came, and the frames that were sent."""
    store, heard = Groups(storing), Frames()
    thinking = {slot: thinks_for(seconds) if seconds else at_once for slot, seconds in zip(SLOTS, times, strict=False)}
    begun = await begun_dispatch(operations(ScriptedRunner(thinking), store=store), *thinking, join=join)
    await deliver_frames(begun, 0, heard)
    return store.came, heard.frames


@pytest.mark.parametrize("seconds", [3.0, 0.001])
def test_those_that_finish_together_share_one_append_and_one_frame(seconds: float) -> None:
    """One append opens the dispatch, one settles all three; one frame says that they run, one brings the result."""
    groups, frames = in_virtual_time(played([seconds] * 3))

    assert groups == [(0.0, []), (seconds, list(SLOTS))]
    assert [frame.result is not None for _, frame in frames] == [False, True]
    assert len(frames[1][1].events) == 3


def test_what_is_done_at_once_is_told_in_one_frame() -> None:
    """Sub-agents that never wait: the first frame brings the result."""
    groups, frames = in_virtual_time(played([0.0] * 3))

    assert groups == [(0.0, []), (0.0, list(SLOTS))]
    assert len(frames) == 1


@pytest.mark.parametrize(("storing", "frames_at"), [(0.002, [0.004]), (5.0, [5.01, 10.0])])
def test_the_first_frame_waits_a_moment_for_what_is_being_recorded(storing: float, frames_at: list[float]) -> None:
    """A commit of some milliseconds costs no frame of its own; a store that takes its time holds up no frame."""
    _, frames = in_virtual_time(played([0.0], storing=storing))

    assert [at for at, _ in frames] == pytest.approx(frames_at)


def test_no_outcome_waits_for_the_append_of_another() -> None:
    """The store takes five seconds for each group, and they come while it is busy."""
    groups, frames = in_virtual_time(played([1.0, 2.0, 2.0], storing=5.0))

    assert groups == [(0.0, []), (6.0, ["shop"]), (7.0, ["rewards", "support"])]
    assert frames[-1][1].result is not None


def test_a_call_begins_in_the_round_after_the_one_that_freed_its_lane() -> None:
    """One at a time: what settles one and what opens the next are two appends without anything in between."""
    groups, _ = in_virtual_time(played([1.0, 2.0], join=JoinPolicy(max_parallel=1)))

    assert groups == [(0.0, []), (1.0, ["shop"]), (1.0, []), (3.0, ["rewards"])]
