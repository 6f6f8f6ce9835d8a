"""Streams a dispatch's events to one listener, coalesced into as few frames as possible, and ends with the result.

Events that happen while a frame is being sent go into the next frame. A slow reader therefore gets fewer and larger
frames, and never delays the dispatch.
"""

import asyncio
from typing import Final

from sidecar.core.dispatching.frames import Frame
from sidecar.operations.deadlines import Deadline
from sidecar.operations.ports import FrameStream, ListenerClosed
from sidecar.operations.turn.dispatch_calls import DispatchHandle

HOLD: Final = 0.01
"""The longest that the first frame waits for an append that is under way, in seconds.

The events of that append then join the first frame. Sending a separate frame would take about as much processor time
as the sidecar spends on a whole child.
"""


async def deliver_frames(handle: DispatchHandle, after: int, stream: FrameStream) -> None:
    """Send all events after the sequence number `after`, then the result.

    Returns when the result was sent or the listener has left. A cancellation means that the listener has left.

    Raises:
        RecordConflict: another sidecar has taken over the dispatch.
    """
    dispatch = handle.dispatch
    number, listener = dispatch.listen()
    try:
        # A client may send a larger number than this process has reached, e.g. one of an earlier process. Without
        # `min`, the listener would skip the events up to that number.
        seen = min(after, dispatch.sequence) if after else 0
        first = True
        hold: Deadline | None = None
        while True:
            # `hears` clears `listener.woken`. Before any state is read: an event that happens after this line sets
            # `woken` again and is not missed.
            listener.hears()
            if dispatch.ownership.conflict is not None:
                raise dispatch.ownership.conflict
            if dispatch.ready.imminent:
                await listener.wait()  # a drain is about to run; its events fit into the same frame
                continue
            # Not attended: the drain that took the last steps is busy with them, i.e. with their append.
            if first and dispatch.result is None and not dispatch.ready.attended:
                # Set once, so that its time runs from the first pass of this loop. `due` is None once it is over.
                hold = hold or dispatch.deadlines.at(asyncio.get_running_loop().time() + HOLD, listener.wake)
                if hold.due is not None:
                    await listener.wait()  # an append is under way; its events can join the first frame
                    continue
            # Snapshot, events and result are read without an await in between, so that they show the same state.
            snapshot = dispatch.snapshot(attached=handle.attached, after=seen) if first else None
            events, result = dispatch.events_after(seen), dispatch.result
            if snapshot is not None or events or result is not None:
                await stream.send(Frame(snapshot, events, result))
            first = False
            if result is not None:
                return
            seen = events[-1].sequence if events else seen
            if not listener.woken:
                await listener.wait()
    except ListenerClosed:
        # The listener's end is no error of the dispatch, which continues as `on_disconnect` says.
        return
    finally:
        # Also after a cancellation: a listener that is not removed would keep `on_disconnect` from ever applying.
        dispatch.leave(number, stream.grace)
