"""`sidecar console` as a process, in front of a sidecar that is another: what it shows is what was served."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.support.console_visits import Visitor
from tests.support.operated_process import free_port, operated_process
from tests.support.sidecar_process import place

pytestmark = pytest.mark.system

ADDRESS: Final = re.compile(r"the console is at (http://[^;]*)/;")


@asynccontextmanager
async def console_process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the command; it is killed if it has not ended by then."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sidecar", "console", *arguments), stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(process: asyncio.subprocess.Process) -> str:
    """Return the next line that it writes."""
    assert process.stderr is not None
    return (await process.stderr.readline()).decode()


async def test_it_shows_a_real_sidecar_and_ends_at_a_signal() -> None:
    """The board has the definition in `dev`; the process page has its instance; a SIGTERM is no error."""
    with place() as folder:
        async with operated_process(folder) as bench, console_process(*at(folder, await free_port())) as process:
            line = await said(process)
            address = ADDRESS.search(line)
            assert address is not None, line
            async with httpx.AsyncClient(base_url=address[1], trust_env=False) as client:
                visitor = Visitor(address[1], client)
                entered = await visitor.sign_in(bench.role_token())
                board, now = await visitor.get("/board"), await visitor.get("/now")
            process.send_signal(signal.SIGTERM)
            code = await process.wait()
            rest = await said(process)

    assert entered.status_code == 303
    assert "in development" in board.text
    assert "takes turns" in now.text
    assert (code, rest) == (0, "")


async def test_a_port_that_is_held_and_an_open_address_are_no_start() -> None:
    """Exit code 2, and a sentence."""
    with place() as folder:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            held = server.sockets[0].getsockname()[1]
            async with console_process(*at(folder, held)) as first:
                message, code = await said(first), await first.wait()
        async with console_process("--target", "unix:/run/o.sock", "--listen", "0.0.0.0:8700") as second:
            refused, other = await said(second), await second.wait()

    assert (code, other) == (2, 2)
    assert "address already in use" in message
    assert "not a loopback address" in refused


def at(folder: Path, port: int) -> tuple[str, ...]:
    """Return the arguments for the sidecar of a folder."""
    return "--target", f"unix:{folder}/o/s.sock", "--listen", f"127.0.0.1:{port}"
