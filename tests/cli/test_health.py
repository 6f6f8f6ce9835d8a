"""`sidecar health`, against a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from io import StringIO

import pytest

from sidecar.cli.health import health

PATIENCE = timedelta(seconds=5)


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Answer every request with the same bytes; yield the address and the first lines of the requests."""
    asked: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        yield "127.0.0.1:{1}".format(*server.sockets[0].getsockname()), asked


async def ask(address: str, patience: timedelta = PATIENCE) -> tuple[int, str]:
    """Return the exit code and what was printed."""
    out = StringIO()
    return await asyncio.to_thread(health, address, patience, out), out.getvalue()


@pytest.mark.parametrize(
    ("answer", "code", "printed"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nready", 0, "ready (200): ready\n"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 0, "ready (200)\n"),
        (b"HTTP/1.1 503 No\r\ncontent-length: 8\r\n\r\ndraining", 1, "not ready (503): draining\n"),
    ],
)
async def test_the_exit_code_is_what_the_sidecar_says(answer: bytes, code: int, printed: str) -> None:
    """Ready with and without a word, and draining."""
    async with answering(answer) as (address, asked):
        assert await ask(address) == (code, printed)
    assert asked == [b"GET /readyz HTTP/1.1"]


async def test_an_answer_that_is_no_http_is_no_health() -> None:
    """Something else listens there."""
    async with answering(b"SSH-2.0\r\n") as (address, _):
        code, printed = await ask(address)
    assert (code, printed.startswith(f"no answer at {address}: ")) == (1, True)


async def test_nobody_at_the_address_is_no_health() -> None:
    """The sidecar has not started, or listens elsewhere."""
    async with answering(b"") as (address, _):
        pass
    code, printed = await ask(address)
    assert (code, printed.startswith(f"no answer at {address}: ")) == (1, True)


async def test_a_sidecar_that_hangs_is_no_health() -> None:
    """It takes the connection and says nothing; the patience is as short as can be."""
    unanswered = asyncio.Event()

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await unanswered.wait()
        writer.close()

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        address = "127.0.0.1:{1}".format(*server.sockets[0].getsockname())
        code, printed = await ask(address, timedelta(milliseconds=10))
        unanswered.set()
    assert (code, "no answer" in printed) == (1, True)
