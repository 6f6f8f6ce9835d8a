"""Stdio: a server as a child process, with limits that the transport of the SDK lacks.

The SDK reads a line of any length into memory; this transport ends a server that writes a too long line. The server's
standard error is discarded, because a server may write users' data to it.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from sidecar_connector_mcp.settings import ServerSettings
from sidecar_connector_mcp.wire import Wire

LEAVE_SECONDS: Final = 0.5
"""Time for a server to end after its input was closed, then after SIGTERM; then it gets SIGKILL."""
POLL_SECONDS: Final = 0.01


@asynccontextmanager
async def over_stdio(settings: ServerSettings, wire: Wire) -> AsyncIterator[TransportStreams]:
    """Start a server and open a transport to it. At the end, the server and its child processes are killed.

    Raises:
        OSError: the program cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *settings.command,
        cwd=settings.directory,
        env={**get_default_environment(), **settings.environment},
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
        limit=wire.most_bytes,
    )
    incoming, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    said, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    reading = asyncio.create_task(_read(process, incoming, wire))
    writing = asyncio.create_task(_write(process, outgoing))
    try:
        yield heard, said
    finally:
        reading.cancel()
        writing.cancel()
        try:
            await _stopped(process)
        finally:
            _signal(process, signal.SIGKILL)
            # asyncio has no public method that closes the pipes of a process whose output was not read to its end.
            getattr(process, "_transport").close()  # noqa: B009  the attribute is private
            await asyncio.gather(reading, writing, return_exceptions=True)
            for stream in (incoming, heard, said, outgoing):
                stream.close()


async def _read(process: Process, incoming: MemoryObjectSendStream[SessionMessage | Exception], wire: Wire) -> None:
    assert process.stdout is not None  # noqa: S101  it is a pipe
    with incoming, contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        while line := await _line(process.stdout, wire):
            wire.heard += 1
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                continue  # the line is no message, e.g. a banner
            await incoming.send(SessionMessage(message))
    wire.spoiled()  # the program has ended or is being ended


async def _line(stdout: asyncio.StreamReader, wire: Wire) -> bytes:
    try:
        return await stdout.readline()
    except ValueError:  # the line exceeds the limit; `overflow` ends the session, and so the process
        wire.overflow()
        return b""


async def _write(process: Process, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None  # noqa: S101  it is a pipe
    with contextlib.suppress(ConnectionError):
        async with outgoing:
            async for each in outgoing:
                process.stdin.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await process.stdin.drain()


async def _stopped(process: Process) -> None:
    assert process.stdin is not None  # noqa: S101  it is a pipe
    process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        await _ended(process)
        _signal(process, number)  # to the whole process group, so that child processes of the server end too
    await _ended(process)


async def _ended(process: Process) -> None:
    """Wait at most `LEAVE_SECONDS` for the end of the process.

    `Process.wait` would also wait for the end of the output, which is not read any more.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + LEAVE_SECONDS
    while process.returncode is None and loop.time() < until:  # noqa: ASYNC110  asyncio has no event for the end of the process alone
        await asyncio.sleep(POLL_SECONDS)


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
