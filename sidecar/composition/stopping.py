"""The shutdown of the process: a stop signal, the drain, and the cut-off after the grace period.

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
"""SIGHUP arrives when a terminal closes, or as a request to reload.

Unhandled it would end the process without a drain.
"""


class StopSignals:
    """Handles stop signals: the first starts the drain, the second ends its waiting."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()

    def received(self) -> None:
        """Handle one signal."""
        (self.hurry if self.stop.is_set() else self.stop).set()

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch the signals while the context is open."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.received)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)


async def serve_until_stopped(sidecar: Sidecar, signals: StopSignals) -> None:
    """Serve until a stop signal arrives, then drain."""
    await signals.stop.wait()
    await drain(sidecar, signals.hurry)


async def drain(sidecar: Sidecar, hurry: asyncio.Event) -> None:
    """Drain the sidecar.

    1. Health reports NOT_SERVING while calls are still accepted for the lame-duck time, so that clients switch first.
    2. New turns are refused with a retry hint.
    3. Running dispatches get the grace period, then parents get the margin to end their turns.
    4. Dispatches that still run are stopped and recorded. Idle turns are left for other sidecars.

    The order matters: refusing turns before health changes would fail requests of clients that cannot know yet.

    Args:
        sidecar: the running sidecar.
        hurry: set by a second signal, which ends the waiting; outcomes are still recorded.
    """
    log, server = StructuredLog("sidecar.stopping"), sidecar.settings.server
    waiting = _drain_of(sidecar)
    sidecar.readiness.block("stop", "a stop signal came")
    await sidecar.set_health(False)
    # Lanes first: their clients need time to open another lane, and this one still serves operations meanwhile.
    for drain_lanes in sidecar.drain_lanes:
        drain_lanes()
    text = "a stop signal arrived; running dispatches may complete"
    log.info(names.DRAINING, text, **asdict(waiting.awaited()), grace_seconds=server.drain_grace.total_seconds())
    await _unless(hurry, server.lame_duck.total_seconds())
    sidecar.operations.binding.draining = True
    await waiting.wait(hurry, lambda awaited: log.info(names.DRAIN_WAITS, "the stop waits", **asdict(awaited)))
    # Outcomes of the stopped calls are recorded here. Their clients read them in the next step, before the listeners
    # close.
    left = await waiting.leave()
    await _answered(sidecar)
    await _keep_history(sidecar)
    log.info(
        names.STOPPED,
        "the sidecar stops; the remaining turns can be ended at another sidecar, or after a restart, and are closed "
        "when "
        "they expire"
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
    """Wait until the clients of stopped calls have their answers.

    If the listener were closed before that, the answers would be lost.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * sidecar.settings.dispatch.record_timeout.total_seconds()):
            await sidecar.in_flight.idle()


async def _keep_history(sidecar: Sidecar) -> None:
    """Wait until ended turns reach the episode memory. With a durable record the next start adds the remaining ones."""
    captures = sidecar.operations.history.captures
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * sidecar.settings.history.timeout.total_seconds()):
            await captures.idle()
    captures.give_up()


async def _unless(hurry: asyncio.Event, seconds: float) -> None:
    """Wait for a time, or until a second signal sets `hurry`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await hurry.wait()
