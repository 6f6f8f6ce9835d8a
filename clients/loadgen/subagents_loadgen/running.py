"""Executes a run: connects, checks that the servers answer, applies the load, and reports."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final, TextIO
from uuid import uuid4

import grpc

from subagents_loadgen.loops import Progress, run_load
from subagents_loadgen.plan import Mix, Plan, Scenario, Target
from subagents_loadgen.report import Report
from subagents_loadgen.run_request import RunRequest
from subagents_loadgen.tally import Tally
from subagents_loadgen.turns import Connection, Turns
from subagents_loadgen.wire.operation import Finished
from subagents_loadgen.wire.rpcs import CHANNEL_OPTIONS, AsyncRpcs, Metadata

BOOT_SECRET_KEY: Final = "x-subagents-boot-secret"  # noqa: S105  the name of a header, not its value
PROGRESS_SECONDS: Final = 0.5


class NotMeasured(Exception):
    """The run cannot be measured; the message says why and what to do."""


async def run(asked: RunRequest, progress_on: TextIO | None = None) -> Report:
    """Execute a run, and end every turn that it began.

    Args:
        asked: the command line.
        progress_on: terminal for the progress; None: no progress.

    Raises:
        NotMeasured: a boot secret cannot be read, or a server cannot be reached or does not bind a turn.
    """
    plan, stop, tally, name = asked.plan, asyncio.Event(), Tally(), uuid4().hex[:12]
    left_open, stages = 0, []
    async with _connected(plan) as connections:
        for connection in connections:
            await _probe(connection, plan, f"{name}-probe")
        turns = Turns(connections, plan.mixes, plan.seed, name)
        try:
            with _stopping_on_interrupt(stop):
                async with _showing(plan, tally, progress_on):
                    stages = await _carried_out(plan, turns, tally, stop)
        finally:
            left_open = await turns.end_open()
    return Report(plan, tally, stages, left_open, stop.is_set())


async def _carried_out(plan: Plan, turns: Turns, tally: Tally, stop: asyncio.Event) -> list[Progress]:
    """Carry out one stage after the other, until the last or until told to stop."""
    done: list[Progress] = []
    for load in plan.stages:
        first = sum(one.started for one in done)

        async def operation(number: int, first: int = first) -> Finished:
            return await turns.carry_out(first + number)

        done.append(await run_load(load, plan.seed + len(done), operation, tally.note, stop))
        if stop.is_set():
            break
    return done


@asynccontextmanager
async def _connected(plan: Plan) -> AsyncIterator[list[Connection]]:
    async with AsyncExitStack() as stack:
        connections = []
        for target in plan.targets:
            metadata = metadata_of(target)
            rpcs = []
            for _ in range(plan.channels):
                channel = grpc.aio.insecure_channel(target.address, options=CHANNEL_OPTIONS)
                rpcs.append(AsyncRpcs(await stack.enter_async_context(channel), target.address, metadata))
            connections.append(Connection(target.address, rpcs, target.weight))
        yield connections


def metadata_of(target: Target) -> Metadata:
    """Return the metadata of every request to a target.

    Raises:
        NotMeasured: the boot secret cannot be read.
    """
    if target.boot_secret_file is None:
        return ()
    try:
        secret = target.boot_secret_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotMeasured(f"the boot secret cannot be read from {target.boot_secret_file}: {error}") from None
    return ((BOOT_SECRET_KEY, secret),)


async def _probe(connection: Connection, plan: Plan, name: str) -> None:
    """Bind and end a turn on each connection, so that connecting is not measured and a wrong secret is noticed."""
    first = plan.mixes[0]
    mix = Mix(scenario=Scenario.BIND, orchestrator_id=first.orchestrator_id, deadline=first.deadline)
    turns = Turns([connection], [mix], plan.seed, name)
    for number in range(len(connection.rpcs)):
        finished = await turns.carry_out(number)
        if finished.errors:
            await turns.end_open()
            raise NotMeasured(f"{connection.target}: {_advice(finished)}")


def _advice(finished: Finished) -> str:
    error = finished.errors[0]
    if "BOOT_SECRET_WRONG" in error:
        return f"{error}: say --boot-secret-file, the file that server.boot_secret_file names"
    if "UNKNOWN_ORCHESTRATOR" in error or "INVALID_REQUEST" in error:
        return f"{error}: there may be no such orchestrator, or several; say --orchestrator"
    if error.startswith("bind UNAVAILABLE -"):
        return f"{error}: no server listens there"
    return error


@contextmanager
def _stopping_on_interrupt(stop: asyncio.Event) -> Iterator[None]:
    """Make the first Ctrl-C end the load in order, and the second one end the process."""
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        stop.set()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@asynccontextmanager
async def _showing(plan: Plan, tally: Tally, screen: TextIO | None) -> AsyncIterator[None]:
    """Show the progress in a line that is updated twice a second."""
    if screen is None:
        yield
        return
    showing = asyncio.create_task(_show(plan, tally, screen))
    try:
        yield
    finally:
        showing.cancel()
        screen.write("\r\033[K")
        screen.flush()


async def _show(plan: Plan, tally: Tally, screen: TextIO) -> None:
    loop = asyncio.get_running_loop()
    began, whole = loop.time(), sum(one.warm_up + one.seconds for one in plan.stages)
    while True:
        screen.write(f"\r\033[K{progress_line(tally, loop.time() - began, whole)}")
        screen.flush()
        await asyncio.sleep(PROGRESS_SECONDS)


def progress_line(tally: Tally, passed: float, whole: float) -> str:
    """Return the progress line after `passed` of `whole` seconds."""
    return (
        f"{min(passed, whole):.0f} of {whole:.0f} s: {tally.whole.count + tally.warm_up} operations, "
        f"{tally.failed.count} failed, p99 {tally.whole.percentile(99) * 1e3:.1f} ms, "
        f"{tally.violations.total()} violations"
    )


def progress_screen(asked: RunRequest) -> TextIO | None:
    """Return standard error if it is a terminal and progress is wanted, else None."""
    return sys.stderr if sys.stderr.isatty() and not asked.quiet else None
