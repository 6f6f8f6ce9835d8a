"""Shuts the sidecar down after a stop signal: refuses new turns, waits for running work, then stops what is left.

This is called the drain. The grace period limits it. Source: DESIGN section 12, reliability row 3.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from msgspec.structs import asdict

from sidecar.adapters.system import SystemClock
from sidecar.composition.running import Sidecar
from sidecar.observability import event_names
from sidecar.observability.logging import StructuredLog
from sidecar.operations.process.draining import Drain, DrainRules

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP arrives when a terminal closes, or as a request to reload.

Unhandled it would end the process without a drain.
"""


class StopSignals:
    """Handles stop signals.

    Attributes:
        stop: set by the first signal; starts the drain.
        hurry: set by the second signal; ends the waiting of the drain.
    """

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()

    def received(self) -> None:
        """Handle one signal."""
        # A third signal changes nothing: outcomes are still recorded, within their time limits.
        (self.hurry if self.stop.is_set() else self.stop).set()

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch the signals while the context is open."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            # A handler of the loop and not of `signal`: it runs between two callbacks, so it can set events safely.
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
    4. Dispatches that still run are stopped and recorded. Open turns in which nothing runs are left for other
       sidecars.

    The order matters: if turns were refused before health changes, clients that cannot know yet that they should use
    another sidecar would get errors.

    Args:
        sidecar: the running sidecar.
        hurry: set by a second signal, which ends the waiting; outcomes are still recorded.
    """
    log, server = StructuredLog("sidecar.stopping"), sidecar.settings.server
    draining = _drain_of(sidecar)
    # Readiness for probes over HTTP, then health for gRPC clients: both must say "no" before anything is refused.
    sidecar.readiness.block("stop", "a stop signal came")
    await sidecar.set_health(False)
    # Lanes first: their clients need time to open another lane, and this one still serves operations meanwhile.
    for drain_lanes in sidecar.drain_lanes:
        drain_lanes()
    text = "a stop signal arrived; running dispatches may complete"
    log.info(event_names.DRAINING, text, **asdict(draining.awaited()), grace_seconds=server.drain_grace.total_seconds())
    # Load balancers and clients check health at intervals. Until they have noticed, new turns still arrive and are
    # served.
    await _wait_unless(hurry, server.lame_duck.total_seconds())
    sidecar.operations.binding.draining = True
    await draining.wait(hurry, lambda awaited: log.info(event_names.DRAIN_WAITS, "the stop waits", **asdict(awaited)))
    # Outcomes of the stopped calls are recorded here. Their clients read them in the next step, before the listeners
    # close.
    remaining = await draining.leave()
    # Before the episode memory: clients wait for their answers, but no client waits for the memory.
    await _wait_for_answers(sidecar)
    await _keep_history(sidecar)
    log.info(
        event_names.STOPPED,
        "the sidecar stops; the remaining turns can be ended at another sidecar, or after a restart, and are closed "
        "when "
        "they expire"
        if remaining.left
        else "the sidecar stops",
        cut_off_turns=remaining.cut_off,
        ended_turns=remaining.ended,
        left_turns=remaining.left,
        oldest=remaining.oldest,
        calls=sidecar.in_flight.by_method(),
    )


def _drain_of(sidecar: Sidecar) -> Drain:
    settings, operations = sidecar.settings, sidecar.operations
    rules = DrainRules(
        grace=settings.server.drain_grace.total_seconds(),
        margin=settings.server.drain_margin.total_seconds(),
        # Twice, because an append that was just sent may use up one timeout before the append of the outcomes can
        # begin.
        end_within=2 * settings.dispatch.record_timeout.total_seconds(),
        # Other sidecars need two things to continue a turn: its record, and the key that signed its token.
        outlived=settings.record.database != "memory" and bool(settings.keys.files),
    )
    return Drain(rules, operations.turns, operations.end_turn, sidecar.in_flight.by_method, SystemClock())


async def _wait_for_answers(sidecar: Sidecar) -> None:
    """Wait until the clients of stopped calls have their answers.

    If the listener were closed before that, the answers would be lost.
    """
    with suppress(TimeoutError):
        # A client that does not read its answer must not prevent the stop.
        async with asyncio.timeout(2 * sidecar.settings.dispatch.record_timeout.total_seconds()):
            await sidecar.in_flight.idle()


async def _keep_history(sidecar: Sidecar) -> None:
    """Wait until ended turns reach the episode memory. With a durable record the next start adds the remaining ones."""
    captures = sidecar.operations.history.captures
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * sidecar.settings.history.timeout.total_seconds()):
            await captures.idle()
    # What is left is dropped here, so that no task writes to the memory after it is closed.
    captures.give_up()


async def _wait_unless(hurry: asyncio.Event, seconds: float) -> None:
    """Wait for a time, or until a second signal sets `hurry`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await hurry.wait()
