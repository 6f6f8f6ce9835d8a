"""Tell a listener what happens in a dispatch, as few frames as it can take, until the result.

Whatever happened while a frame was on its way goes into the next one: a slow reader gets fewer and larger frames, and
never makes the dispatch wait.
"""

from sidecar.core.dispatching.frames import Frame
from sidecar.operations.dispatch_calls import Begun
from sidecar.operations.ports import FrameStream, ListenerGone


async def deliver_frames(begun: Begun, after: int, stream: FrameStream) -> None:
    """Send everything after sequence `after`, then the result.

    Returns when the result was sent, or the listener has left. Being cancelled means that it has left.
    """
    dispatch = begun.dispatch
    number, waker = dispatch.listen()
    try:
        seen = min(after, dispatch.sequence)
        snapshot = dispatch.snapshot(attached=begun.attached, after=seen)
        first: Frame | None = Frame(snapshot=snapshot)
        while True:
            waker.clear()
            events = dispatch.events_after(seen)
            result = dispatch.result
            if first is not None or events or result is not None:
                await stream.send(Frame(first.snapshot if first else None, events, result))
            first = None
            if result is not None:
                return
            seen = events[-1].sequence if events else seen
            if dispatch.sequence == seen and dispatch.result is None:
                await waker.wait()
    except ListenerGone:
        return
    finally:
        dispatch.leave(number)
