"""Connections that do nothing, or flood the listener with frames, beside a client that has turns (rows 36 and 37).

Short in `make test`; `SIDECAR_TORTURE_CONNECTIONS` sets how many connections there are, `SIDECAR_TORTURE_FLOODS` how
often a frame is repeated. Both print figures. The frames are written by hand, because no client library sends them.
"""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.support import http2_frames as h2
from tests.support.requirement import requirement
from tests.support.sidecar_process import SidecarProcess, place, started
from tests.system.torture.agents import agents_for
from tests.system.torture.clients import Told, clients_at_work
from tests.system.torture.places import QUICK, SECONDS, client_of, dice, seed, settings_of, strikes, tell

pytestmark = pytest.mark.system

CONNECTIONS: Final = strikes("CONNECTIONS", 200)
"""Of each kind."""
FRAMES: Final = strikes("FLOODS", 20_000)
"""That one flood sends."""
SERVED_BESIDE: Final = 20
"""Outcomes and ends that clients are told beside each attack."""
MOST_MORE_BYTES: Final = 100 * 1024 * 1024
"""By which a flood over one connection may let the process grow."""
HANDSHAKE_SECONDS: Final = 60.0
"""Longest wait for the end of a connection that never becomes one of HTTP/2; the listener gives it 5 seconds."""
SILENT_SECONDS: Final = 120.0
"""The same for one that answers no probe: probed after 20 seconds, given up 5 seconds later."""
BATCH: Final = 500
DRAIN_SECONDS: Final = 30.0
BIND: Final = b"".join(
    h2.field(name, value)
    for name, value in (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/subagents.dispatch.v1.DispatchService/BindTurn"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    )
)
ROOM: Final = f"""
[server.limits]
max_connections = {6 * CONNECTIONS}
"""
"""So that each connection is accepted: one that is refused at once shows nothing."""
Attack = Callable[[int], bytes]
"""Returns the bytes of number n of a flood."""


def rapid_reset(number: int) -> bytes:
    """Begin a call, and take it back at once."""
    stream = 2 * number + 1
    return h2.headers(stream, BIND) + h2.reset(stream)


ATTACKS: Final[dict[str, Attack]] = {
    "rapid resets": rapid_reset,
    "pings": lambda number: h2.ping(number.to_bytes(8)),
    "settings": lambda number: h2.settings(),
}
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(folder: Path, count: int, first: bytes) -> AsyncIterator[Sequence[Connection]]:
    """Open connections to the dispatch socket, each of which sends so much and nothing else."""
    opened: list[Connection] = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_unix_connection(folder / "dispatch" / "sidecar.sock")
            writer.write(first)
            opened.append((reader, writer))
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


@asynccontextmanager
async def attacked(files: int | None = None) -> AsyncIterator[tuple[Path, SidecarProcess, Told]]:
    """Have a sidecar, and clients that have turns all the time."""
    chosen = dice(seed())
    with place() as folder:
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(agents_for(folder, chosen))
            more = settings_of(folder, folder) + ROOM
            sidecar = await opened.enter_async_context(started(folder, more=more, environment=QUICK, files=files))
            await sidecar.event("sidecar.readiness")
            told = await opened.enter_async_context(clients_at_work(lambda: client_of(folder), chosen, left=0.0))
            await told.progress(SERVED_BESIDE)
            yield folder, sidecar, told


def memory_of(sidecar: SidecarProcess) -> int:
    """Return the bytes that the process has in memory."""
    pages = int(Path(f"/proc/{sidecar.process.pid}/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()


async def at_its_end(connections: Sequence[Connection]) -> int:
    """Return how many of the connections the listener ends."""

    async def ended(reader: asyncio.StreamReader) -> bool:
        with suppress(ConnectionError):
            while await reader.read(65536):
                pass
        return True

    return sum(await asyncio.gather(*(ended(reader) for reader, _ in connections)))


@requirement("SX-38")
@pytest.mark.seconds(HANDSHAKE_SECONDS + SILENT_SECONDS + 60 + CONNECTIONS / 20)
async def test_connections_that_do_nothing_are_ended_and_nobody_else_is_disturbed() -> None:
    """Half of them never say what they are, half answer no probe; the long form also waits for the end of these."""
    files = 6 * CONNECTIONS + 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, files)), hard))
    async with attacked(min(hard, files)) as (folder, sidecar, told):
        before = memory_of(sidecar)
        async with (
            connected(folder, CONNECTIONS // 2, b"") as mute,
            connected(folder, CONNECTIONS // 2, h2.PREFACE[:10]) as halfway,
            connected(folder, CONNECTIONS, h2.PREFACE + h2.settings()) as silent,
        ):
            for reader, _ in silent:
                assert (await h2.read_frame(reader)).kind == h2.Kind.SETTINGS
            await told.progress(SERVED_BESIDE)
            more = memory_of(sidecar) - before
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                assert await at_its_end([*mute, *halfway]) == len(mute) + len(halfway)
            if SECONDS:
                async with asyncio.timeout(SILENT_SECONDS):
                    assert await at_its_end(silent) == len(silent)
            await told.progress(SERVED_BESIDE)
        assert (told.wrong, told.refused) == ([], 0)
        tell("idle connections", 0, {"connections": 2 * CONNECTIONS, "MiB more": more >> 20})


@requirement("SX-38")
@pytest.mark.parametrize("kind", ATTACKS)
@pytest.mark.seconds(120 + FRAMES / 1000)
async def test_a_flood_of_frames_costs_bounded_memory_and_nobody_else_anything(kind: str) -> None:
    """A flooding client is told to calm down, or is served; each connection that the listener ends is opened anew."""
    async with attacked() as (folder, sidecar, told):
        before, most, opened, sent = memory_of(sidecar), 0, 0, 0
        while sent < FRAMES:
            async with connected(folder, 1, h2.PREFACE + h2.settings()) as ((reader, writer),):
                opened += 1
                reading = asyncio.create_task(at_its_end([(reader, writer)]))  # unread answers would stop the flood
                with suppress(ConnectionError):
                    for number in range(FRAMES - sent):
                        writer.write(ATTACKS[kind](number))
                        sent += 1
                        if number % BATCH == BATCH - 1:
                            async with asyncio.timeout(DRAIN_SECONDS):
                                await writer.drain()
                            most = max(most, memory_of(sidecar) - before)
                            if reading.done():
                                break
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            await told.progress(1)
        await told.progress(SERVED_BESIDE)
        assert (told.wrong, told.refused) == ([], 0)
        assert most < MOST_MORE_BYTES
        tell(f"flood of {kind}", 0, {"frames": sent, "connections": opened, "MiB more": most >> 20})
