"""The end of the process: a stop signal, the drain, and what is cut off when the grace is over.

Source: DESIGN section 12, reliability row 3.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from msgspec.structs import asdict

from sidecar.adapters.system import SystemClock
from sidecar.composition.running import Sidecar
from sidecar.observability import names
from sidecar.observability.logging import StructuredLog
from sidecar.operations.process.draining import Drain, DrainRules

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP comes when a terminal is closed, or as a wish to reload; unhandled it would end the process at once."""


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
    then what runs gets the grace, and after it parents get a margin to end their turns. What still runs then is stopped
    and put on record; turns in which nothing runs are left to the other sidecars, where there may be any.

    Args:
        sidecar: running.
        hurry: set by a second signal: the waiting is over, what is left is still put on record.
    """
    log, server = StructuredLog("sidecar.stopping"), sidecar.settings.server
    waiting = _drain_of(sidecar)
    sidecar.readiness.block("stop", "a stop signal came")
    await sidecar.set_health(False)
    for drain_lanes in sidecar.drain_lanes:
        drain_lanes()
    text = "a stop signal came; what runs may end"
    log.info(names.DRAINING, text, **asdict(waiting.awaited()), grace_seconds=server.drain_grace.total_seconds())
    await _unless(hurry, server.lame_duck.total_seconds())
    sidecar.operations.binding.draining = True
    await waiting.wait(hurry, lambda awaited: log.info(names.DRAIN_WAITS, "the stop waits", **asdict(awaited)))
    left = await waiting.leave()
    await _answered(sidecar)
    await _keep_history(sidecar)
    log.info(
        names.STOPPED,
        "the sidecar stops; turns that are left can be ended at another one, or after a restart, and are closed when "
        "their time is over"
        if left.left
        else "the sidecar stops",
        cut_off_turns=left.cut_off,
        ended_turns=left.ended,
        left_turns=left.left,
        oldest=left.oldest,
        calls=sidecar.in_flight.by_method(),
    )


def _drain_of(sidecar: Sidecar) -> Drain:
    settings, operations = sidecar.settings, sidecar.operations
    rules = DrainRules(
        grace=settings.server.drain_grace.total_seconds(),
        margin=settings.server.drain_margin.total_seconds(),
        end_within=2 * settings.dispatch.record_timeout.total_seconds(),
        outlived=settings.record.database != "memory" and bool(settings.keys.files),
    )
    return Drain(rules, operations.turns, operations.end_turn, sidecar.in_flight.by_method, SystemClock())


async def _answered(sidecar: Sidecar) -> None:
    """Let those be answered whose calls were stopped."""
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * sidecar.settings.dispatch.record_timeout.total_seconds()):
            await sidecar.in_flight.idle()


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
