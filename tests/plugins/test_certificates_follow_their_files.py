"""Plugins that ask services over HTTPS use the certificates that are in their files now, without a restart."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sidecar.policy.lifecycle import GateUnavailable
from sidecar_conformance.gate_client import QUESTION
from sidecar_flags_unleash.backend import UnleashUnreachable
from sidecar_flags_unleash.plugin import unleash_flags
from sidecar_gates_http.plugin import http_gates
from tests.support.authority import LOCAL, Authority
from tests.support.sidecar_process import next_look

ANSWER = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
REACHED, UNTRUSTED = "503", "cannot be reached"


def identity(folder: Path, authority: Authority) -> ssl.SSLContext:
    """Return what a service shows, by an authority."""
    files = authority.issue(*LOCAL).written(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(str(files.certificate_file), str(files.key_file))
    return context


@asynccontextmanager
async def service(context: ssl.SSLContext, port: int = 0) -> AsyncIterator[int]:
    """Answer every request with 503; give the port."""
    writers: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]
    for writer in writers:
        writer.transport.abort()
    await next_look()


def gates(url: str, folder: Path) -> tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[None]]]:
    """Return how gate client `http` asks, and how it is closed."""
    client = http_gates({"url": url, "ca_file": str(folder / "ca.pem"), "attempts": 1})
    return lambda: client.ask(QUESTION), client.close


def unleash(url: str, folder: Path) -> tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[None]]]:
    """Return how flag backend `unleash` asks, and how it is closed."""
    (folder / "token").write_text("a-token")
    settings = {"url": url, "environment": "tests", "ca_file": str(folder / "ca.pem")}
    backend = unleash_flags({**settings, "token_file": str(folder / "token")})
    return backend.fetch, backend.close


@pytest.mark.parametrize("plugin", [gates, unleash])
async def test_another_authority_is_trusted_once_it_is_in_the_file(
    plugin: Callable[[str, Path], tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[None]]]], tmp_path: Path
) -> None:
    """A service moves to a certificate of another authority: it is refused until the authority is in the file."""
    old, new, mine = Authority("old"), Authority("new"), tmp_path / "mine"
    old.issue("client.example").written(mine)

    async def result(ask: Callable[[], Awaitable[object]]) -> str:
        try:
            await ask()
        except (GateUnavailable, UnleashUnreachable) as problem:
            return next((each for each in (REACHED, UNTRUSTED) if each in str(problem)), str(problem))
        return ""

    async with service(identity(tmp_path / "before", old)) as port:
        ask, close = plugin(f"https://localhost:{port}", mine)
        assert await result(ask) == REACHED
    async with service(identity(tmp_path / "after", new), port), asyncio.timeout(20):
        assert await result(ask) == UNTRUSTED
        new.issue("client.example").written(mine)
        while await result(ask) != REACHED:
            await next_look()
    await close()
