"""A whole run: connect, look whether the server lets us in, load it, report."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final, TextIO
from uuid import uuid4

import grpc

from subagents_loadgen.asking import Asked
from subagents_loadgen.loops import run_load
from subagents_loadgen.operation import Finished
from subagents_loadgen.plan import Mix, Scenario
from subagents_loadgen.report import Report
from subagents_loadgen.tally import Tally
from subagents_loadgen.turns import Connection, Turns

BOOT_SECRET_KEY: Final = "x-subagents-boot-secret"  # noqa: S105  the name of a header, not its value
CHANNEL_OPTIONS: Final = (
    ("grpc.enable_retries", 0),  # a retry would hide an error and lengthen a latency
    ("grpc.use_local_subchannel_pool", 1),  # or several channels would share one connection
)
PROGRESS_SECONDS: Final = 0.5


class NotMeasured(Exception):
    """There is nothing to measure; the message says why and what to do."""


async def run(asked: Asked, progress_on: TextIO | None = None) -> Report:
    """Carry out what was asked.

    Args:
        asked: by the command line.
        progress_on: a terminal to show the progress on; None: nowhere.

    Raises:
        NotMeasured: the server is not there, does not let us in, or binds nothing that could be called.
    """
    stop, tally, name = asyncio.Event(), Tally(), uuid4().hex[:12]
    async with _connected(asked) as connection:
        await _probe(connection, asked, f"{name}-probe")
        turns = Turns(connection, asked.mix, asked.seed, name)
        with _stopping_on_interrupt(stop):
            async with _showing(asked, tally, progress_on):
                progress = await run_load(asked.load, asked.seed, turns.carry_out, tally.note, stop)
    return Report(asked.load, asked.mix, asked.seed, asked.channels, tally, progress, stop.is_set())


@asynccontextmanager
async def _connected(asked: Asked) -> AsyncIterator[Connection]:
    metadata: tuple[tuple[str, str], ...] = ()
    if asked.boot_secret_file is not None:
        try:
            secret = asked.boot_secret_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise NotMeasured(f"the boot secret cannot be read from {asked.boot_secret_file}: {error}") from None
        metadata = ((BOOT_SECRET_KEY, secret),)
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(asked.target, options=CHANNEL_OPTIONS))
            for _ in range(asked.channels)
        ]
        yield Connection(channels, metadata)


async def _probe(connection: Connection, asked: Asked, name: str) -> None:
    """Bind a turn and end it on each connection, so that connecting is not measured and a wrong secret says so."""
    mix = Mix(scenario=Scenario.BIND, orchestrator_id=asked.mix.orchestrator_id, deadline=asked.mix.deadline)
    turns = Turns(connection, mix, asked.seed, name)
    for number in range(len(connection.channels)):
        finished = await turns.carry_out(number)
        if finished.errors:
            raise NotMeasured(f"{asked.target}: {_advice(finished)}")


def _advice(finished: Finished) -> str:
    error = finished.errors[0]
    if "BOOT_SECRET_WRONG" in error:
        return f"{error}: say --boot-secret-file, the file that server.boot_secret_file names"
    if "UNKNOWN_ORCHESTRATOR" in error or "INVALID_REQUEST" in error:
        return f"{error}: there may be no such orchestrator, or several; say --orchestrator"
    if error.startswith("bind UNAVAILABLE -"):
        return f"{error}: nobody listens there"
    return error


@contextmanager
def _stopping_on_interrupt(stop: asyncio.Event) -> Iterator[None]:
    """Let the first Ctrl-C end the load in order, and the second end the process."""
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
async def _showing(asked: Asked, tally: Tally, screen: TextIO | None) -> AsyncIterator[None]:
    """Show a line that is written over twice a second."""
    if screen is None:
        yield
        return
    showing = asyncio.create_task(_show(asked, tally, screen))
    try:
        yield
    finally:
        showing.cancel()
        screen.write("\r\033[K")
        screen.flush()


async def _show(asked: Asked, tally: Tally, screen: TextIO) -> None:
    loop = asyncio.get_running_loop()
    began, whole = loop.time(), asked.load.warm_up + asked.load.seconds
    while True:
        screen.write(f"\r\033[K{progress_line(tally, loop.time() - began, whole)}")
        screen.flush()
        await asyncio.sleep(PROGRESS_SECONDS)


def progress_line(tally: Tally, passed: float, whole: float) -> str:
    """Return what to show after `passed` of `whole` seconds."""
    return (
        f"{min(passed, whole):.0f} of {whole:.0f} s: {tally.whole.count + tally.warm_up} operations, "
        f"{tally.failed.count} failed, p99 {tally.whole.percentile(99) * 1e3:.1f} ms, "
        f"{tally.violations.total()} violations"
    )


def progress_screen(asked: Asked) -> TextIO | None:
    """Return the terminal to show progress on, if there is one and it is wanted."""
    return sys.stderr if sys.stderr.isatty() and not asked.quiet else None
