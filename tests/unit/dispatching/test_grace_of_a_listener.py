"""How long a dispatch waits for a listener whose lane broke, in virtual time."""

import asyncio
from datetime import timedelta

from tests.support.fake_runner import ScriptedRunner, hangs
from tests.unit.dispatching.test_time_of_a_fan_out import begun_dispatch, operations
from tests.unit.flags.virtual_time import in_virtual_time

GRACE = timedelta(seconds=5)


def ended_at(*breaks: float) -> float:
    """Return when a dispatch ends whose listener breaks off at these seconds; it returns at once but after the last."""

    async def broken_again_and_again() -> float:
        begun = await begun_dispatch(operations(ScriptedRunner({"shop": hangs()})), "shop")
        loop = asyncio.get_running_loop()
        for at in breaks:
            number, _ = begun.dispatch.listen()
            await asyncio.sleep(at - loop.time())
            begun.dispatch.leave(number, GRACE)
        await begun.dispatch.finished.wait()
        return loop.time()

    return in_virtual_time(broken_again_and_again())


def test_the_dispatch_is_cancelled_when_the_grace_is_over() -> None:
    """Five seconds after the only break."""
    assert ended_at(2.0) == 7.0


def test_each_break_has_a_grace_of_its_own() -> None:
    """The second break, four seconds after the first, has five seconds, not the one that the first grace had left."""
    assert ended_at(2.0, 6.0) == 11.0


def test_a_listener_that_is_back_is_in_no_hurry() -> None:
    """The grace of the first break is over when the second one happens."""
    assert ended_at(2.0, 60.0) == 65.0
