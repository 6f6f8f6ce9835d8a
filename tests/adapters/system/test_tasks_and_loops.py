"""Tasks that somebody owns, and loops that are kept going."""

import asyncio
import inspect

import pytest

from sidecar.adapters.system import LoopEnded, OwnedTasks, Supervisor, SystemClock, SystemIds, SystemRandomness


class Strays:
    """What strayed out of tasks."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def take(self, name: str, error: BaseException) -> None:
        """Take note."""
        self.seen.append((name, type(error).__name__))


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_what_a_task_raises_is_reported_and_goes_no_further(error: type[BaseException]) -> None:
    """Even an exit: it would end the loop, and with it every turn."""
    strays = Strays()
    tasks = OwnedTasks(strays.take)

    async def work() -> None:
        raise error

    tasks.spawn(work(), "work")

    assert await tasks.ended(within=5)
    assert strays.seen == [("work", error.__name__)]


async def test_closing_stops_what_runs_and_names_what_will_not_stop() -> None:
    """Two tasks: one ends when told, the other takes no notice until later."""
    strays, release = Strays(), asyncio.Event()
    tasks = OwnedTasks(strays.take)

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    tasks.spawn(asyncio.Event().wait(), "docile")  # type: ignore[arg-type]  # returns True, which nobody looks at
    tasks.spawn(stubborn(), "stubborn")
    await asyncio.sleep(0)

    await tasks.close(within=0.01)

    assert strays.seen == [("stubborn", "TimeoutError")]
    release.set()
    assert await tasks.ended(within=5)


async def test_work_whose_task_is_stopped_before_it_began_ends_with_it() -> None:
    """Python would warn otherwise, when it collects the coroutine, that it was never awaited."""
    strays = Strays()
    tasks = OwnedTasks(strays.take)
    work = asyncio.sleep(0)
    tasks.spawn(work, "not begun")

    await tasks.close()

    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
    assert strays.seen == []


class Loops:
    """What the supervisor tells."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def loop_down(self, name: str, error: BaseException) -> None:
        """A loop ended."""
        self.told.append(f"{name} down: {type(error).__name__}")

    def loop_up(self, name: str) -> None:
        """It runs again."""
        self.told.append(f"{name} up")


async def test_a_loop_that_ends_is_run_again_after_a_growing_wait() -> None:
    """It raises, exits, is cancelled by a stray, and returns; each is told; the sixth time it runs on."""
    loops, waits, running = Loops(), list[float](), asyncio.Event()
    ends: list[BaseException | None] = [ValueError(), SystemExit(), KeyboardInterrupt(), asyncio.CancelledError(), None]

    async def run() -> None:
        if ends:
            end = ends.pop(0)
            if end is not None:
                raise end
            return
        running.set()
        await asyncio.Event().wait()

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    keeping = asyncio.create_task(Supervisor(loops, pause).keep("flags", run))
    await running.wait()
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping

    ended = ["ValueError", "SystemExit", "KeyboardInterrupt", "CancelledError", LoopEnded.__name__]
    assert loops.told == [line for name in ended for line in (f"flags down: {name}", "flags up")]
    assert waits == [0.4, 0.8, 1.6, 3.2, 6.4]


async def test_the_clock_is_the_loops_and_knows_its_time_zone() -> None:
    """Durations follow the loop, records are in UTC."""
    clock = SystemClock()
    assert abs(clock.monotonic() - asyncio.get_running_loop().time()) < 1
    assert str(clock.now().tzinfo) == "UTC"


def test_ids_are_printable_and_do_not_repeat() -> None:
    """`<kind>-<22 characters>`; jitter stays within its bounds."""
    ids = SystemIds()
    made = [ids.new("child") for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(one.startswith("child-") and len(one) == 28 and one.isprintable() for one in made)
    chance = SystemRandomness()
    assert all(1.0 <= chance.uniform(1.0, 2.0) <= 2.0 for _ in range(100))
