"""The loop that everything is simulated on."""

import asyncio
import threading
from random import Random

import pytest

from sidecar.adapters.virtual_time import Deadlock, Runaway, Trace, VirtualLoop, simulate


def new_loop(seed: int = 1, most_steps: int = 10_000) -> VirtualLoop:
    """Return a loop."""
    return VirtualLoop(Random(seed), Trace(), most_steps)


def order_of(seed: int) -> list[int]:
    """Return in which order five tasks come to their second step."""
    loop = new_loop(seed)
    order: list[int] = []

    async def one(number: int) -> None:
        await asyncio.sleep(0)
        order.append(number)

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(5)))

    simulate(loop, main())
    return order


def test_time_jumps_to_the_next_timer() -> None:
    """An hour takes no time, and is an hour."""
    loop = new_loop()

    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert simulate(loop, main()) == 3600


def test_a_seed_decides_the_order() -> None:
    """The same seed gives the same order, and over some seeds many orders occur."""
    assert order_of(3) == order_of(3)
    assert len({tuple(order_of(seed)) for seed in range(50)}) > 20


def test_what_one_step_schedules_stays_in_order() -> None:
    """`call_soon` promises it, and programs rely on it."""
    for seed in range(20):
        loop = new_loop(seed)
        order: list[int] = []

        async def main(order: list[int] = order) -> None:
            for number in range(5):
                asyncio.get_running_loop().call_soon(order.append, number)
            await asyncio.sleep(1)

        simulate(loop, main())
        assert order == [0, 1, 2, 3, 4]


def test_a_deadlock_names_who_waits() -> None:
    """Nothing is ready, no timer is set, and the work is not done."""
    loop = new_loop()
    waiting = loop.create_future()

    async def main() -> None:
        await waiting

    work = loop.create_task(main(), name="somebody who waits")
    with pytest.raises(Deadlock, match="somebody who waits"):
        loop.run_until_complete(work)
    waiting.set_result(None)
    simulate(loop, asyncio.wait_for(work, None))


def test_a_runaway_is_stopped() -> None:
    """A task that never waits for anything would go on for ever."""
    loop = new_loop(most_steps=100)

    async def main() -> None:
        for _ in range(1000):
            await asyncio.sleep(0)

    with pytest.raises(Runaway, match="more than 100 steps"):
        simulate(loop, main())


def test_threads_are_refused() -> None:
    """Neither into one nor out of one."""
    loop, refused = new_loop(), []

    async def main() -> None:
        with pytest.raises(RuntimeError, match="thread"):
            await asyncio.to_thread(len, "x")

    simulate(loop, main())

    def elsewhere() -> None:
        try:
            loop.call_soon_threadsafe(len, "x")
        except RuntimeError as error:
            refused.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert refused == ["a thread cannot be simulated"]
