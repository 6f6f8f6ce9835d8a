"""Tell a listener what happens in a dispatch, as few frames as it can take, until the result.

Whatever happened while a frame was on its way goes into the next one: a slow reader gets fewer and larger frames, and
never makes the dispatch wait.
"""

import asyncio
from typing import Final

from sidecar.core.dispatching.frames import Frame
from sidecar.operations.ports import FrameStream, ListenerGone
from sidecar.operations.turn.dispatch_calls import Begun
from sidecar.operations.turn.state.live_dispatch import LiveDispatch

TURNS_OF_THE_LOOP: Final = 6
"""How often to give way before a frame. A sub-agent that answers at once needs five; a frame costs as much as fifty."""


async def deliver_frames(begun: Begun, after: int, stream: FrameStream) -> None:
    """Send everything after sequence `after`, then the result.

    Returns when the result was sent, or the listener has left. Being cancelled means that it has left.

    Raises:
        RecordConflict: another sidecar has gone on with the dispatch.
    """
    dispatch = begun.dispatch
    number, waker = dispatch.listen()
    try:
        seen, first = min(after, dispatch.sequence), True
        while True:
            await _let_things_happen(dispatch)
            if dispatch.ownership.conflict is not None:
                raise dispatch.ownership.conflict
            waker.clear()
            snapshot = dispatch.snapshot(attached=begun.attached, after=seen) if first else None
            events, result = dispatch.events_after(seen), dispatch.result
            if snapshot is not None or events or result is not None:
                await stream.send(Frame(snapshot, events, result))
            first = False
            if result is not None:
                return
            seen = events[-1].sequence if events else seen
            if dispatch.sequence == seen and dispatch.result is None and dispatch.ownership.conflict is None:
                await waker.wait()
    except ListenerGone:
        return
    finally:
        dispatch.leave(number, stream.grace)


async def _let_things_happen(dispatch: LiveDispatch) -> None:
    """Give way to whatever can go on without waiting for anything outside, so that it is told in this frame."""
    for _ in range(TURNS_OF_THE_LOOP):
        if dispatch.result is not None or dispatch.ownership.conflict is not None:
            return
        await asyncio.sleep(0)
