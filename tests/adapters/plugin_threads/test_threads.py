"""A plugin in a thread of its own: its calls run there, and what it does to its thread is its own affair.

Nothing here waits for time. What blocks waits for an event that the test sets after it has seen what goes on meanwhile.
"""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from sidecar.adapters.plugin_threads.thread import PluginThread
from tests.adapters.plugin_threads.conftest import Told

CALLER: ContextVar[str] = ContextVar("caller", default="nobody")


class Blocks:
    """Blocks its thread until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()

    async def does(self) -> str:
        """Block."""
        self.begun.set()
        self.let_go.wait(20)
        return "done"


async def in_thread(work: threading.Event) -> None:
    """Wait for an event of another thread without blocking this one."""
    await asyncio.to_thread(work.wait, 20)


async def test_a_call_runs_in_another_thread_and_in_the_context_of_the_caller(thread: PluginThread) -> None:
    """So that what a plugin logs belongs to the turn."""
    CALLER.set("ada")

    async def work() -> tuple[int, str]:
        await asyncio.sleep(0)
        return threading.get_ident(), CALLER.get()

    where, caller = await thread.call(work)
    assert where != threading.get_ident()
    assert (where, caller) == (thread.now(threading.get_ident, 5), "ada")


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_what_a_call_raises_is_raised_for_its_caller_and_the_thread_goes_on(
    thread: PluginThread, error: BaseException
) -> None:
    """Also what would end a loop."""

    async def work() -> None:
        raise error

    with pytest.raises(type(error)):
        await thread.call(work)
    assert thread.now(lambda: "still here", 5) == "still here"


async def test_a_task_of_a_plugin_that_exits_ends_neither_thread_nor_process(thread: PluginThread) -> None:
    """Nobody awaits that task."""

    async def exits() -> None:
        raise SystemExit(1)

    async def work() -> None:
        task = asyncio.ensure_future(exits())
        await asyncio.wait((task,))
        task.exception()

    await thread.call(work)
    assert thread.now(lambda: "still here", 5) == "still here"


async def test_a_cancelled_call_is_cancelled_in_the_thread_and_waits_for_its_end(thread: PluginThread) -> None:
    """A caller that abandons it sees that it still works; a second cancellation leaves it alone."""
    begun, cancelled, let_go = threading.Event(), threading.Event(), threading.Event()

    async def clings() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.to_thread(let_go.wait, 20)
            raise

    calling = asyncio.ensure_future(thread.call(clings))
    await in_thread(begun)
    calling.cancel()
    await in_thread(cancelled)
    assert not calling.done()
    calling.cancel()
    await asyncio.wait((calling,))
    assert calling.cancelled()
    let_go.set()


async def test_a_blocked_thread_holds_up_no_other_and_is_named_once() -> None:
    """With the frame that blocks."""
    blocks, told, heard = Blocks(), Told(), asyncio.Event()

    def tell(kind: str, detail: str) -> None:
        told.anomaly(kind, detail)
        heard.set()

    async def answer() -> str:
        return "an answer"

    blocked, other = (PluginThread(f"gate-client {name}", tell, report_after=0.0) for name in ("mine", "other"))
    first = asyncio.ensure_future(blocked.call(blocks.does))
    await in_thread(blocks.begun)
    second = asyncio.ensure_future(blocked.call(answer))

    assert await other.call(answer) == "an answer"
    with pytest.raises(TimeoutError, match="has not returned within"):
        blocked.now(lambda: "late", 0.001)
    with pytest.raises(TimeoutError, match="has not returned from an earlier call"):
        blocked.now(lambda: "not even tried", 20)
    for call in (first, second):
        call.cancel()
    await heard.wait()
    blocks.let_go.set()
    await asyncio.wait((first, second))

    ((kind, detail),) = told
    assert kind == "plugin_blocked"
    assert detail.startswith(f"gate-client mine blocks its thread at {__name__}:")
    assert blocked.now(lambda: "back", 5) == "back"
    for thread in (blocked, other):
        thread.leave()
