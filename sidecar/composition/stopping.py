"""The end of the process: a stop signal, the drain, and what is cut off when the grace is over.

Source: DESIGN section 12, reliability row 3.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sidecar.composition.running import Sidecar
from sidecar.observability import names
from sidecar.observability.logging import StructuredLog

LOOK_SECONDS: Final = 0.02
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """The first signal asks for a drain, the second one for its end."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()

    def came(self) -> None:
        """Take note of a signal."""
        (self.hurry if self.stop.is_set() else self.stop).set()

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch the signals while the context is open."""
        loop = asyncio.get_running_loop()
        for one in SIGNALS:
            loop.add_signal_handler(one, self.came)
        try:
            yield
        finally:
            for one in SIGNALS:
                loop.remove_signal_handler(one)


async def serve_until_stopped(sidecar: Sidecar, signals: StopSignals) -> None:
    """Serve until a signal comes, then drain."""
    await signals.stop.wait()
    await drain(sidecar, signals.hurry)


async def drain(sidecar: Sidecar, hurry: asyncio.Event) -> None:
    """Let what runs come to its end.

    Health says no first, while calls are still taken for the lame duck's time; then new turns are refused, with a hint;
    then running dispatches, and turns that have dispatched, get the grace. What is left is stopped and put on record.

    Args:
        sidecar: running.
        hurry: set by a second signal: the waiting is over, what is left is still put on record.
    """
    log, server = StructuredLog("sidecar.stopping"), sidecar.settings.server
    sidecar.readiness.block("stop", "a stop signal came")
    await sidecar.set_health(False)
    log.info(
        names.DRAINING,
        "a stop signal came; running turns may end",
        turns=_busy_turns(sidecar),
        calls=sidecar.in_flight.count,
        grace_seconds=server.drain_grace.total_seconds(),
    )
    await _unless(hurry, server.lame_duck.total_seconds())
    sidecar.operations.binding.draining = True
    with suppress(TimeoutError):
        async with asyncio.timeout(server.drain_grace.total_seconds()):
            while _busy(sidecar) and not hurry.is_set():
                await _unless(hurry, LOOK_SECONDS)
    cut_off = await _cut_off(sidecar)
    await _keep_history(sidecar)
    log.info(names.STOPPED, "the sidecar stops", cut_off_turns=cut_off, calls=sidecar.in_flight.by_method())


async def _keep_history(sidecar: Sidecar) -> None:
    """Let what turns have left reach the episode memory; what does not in time is left to the next start, or lost."""
    captures = sidecar.operations.history.captures
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * sidecar.settings.history.timeout.total_seconds()):
            await captures.idle()
    captures.give_up()


async def _unless(hurry: asyncio.Event, seconds: float) -> None:
    """Wait, but not if there is a hurry."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await hurry.wait()


def _busy(sidecar: Sidecar) -> bool:
    return bool(sidecar.in_flight.count or sidecar.operations.dispatch_calls.running or _busy_turns(sidecar))


def _busy_turns(sidecar: Sidecar) -> int:
    """How many turns have dispatched and not ended; one that has not may be honoured by another replica."""
    return sum(1 for turn in sidecar.operations.turns if turn.closed is None and turn.dispatches)


async def _cut_off(sidecar: Sidecar) -> int:
    """Stop what still runs: every call gets its outcome, every child its end, every turn its routing decision."""
    left = [turn for turn in sidecar.operations.turns if turn.closed is None and turn.dispatches]
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * sidecar.settings.dispatch.record_timeout.total_seconds()):
            for turn in left:
                await sidecar.operations.end_turn.reap(turn)
            await sidecar.in_flight.idle()
    return len(left)
