"""The ops address, byte by byte."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sidecar.rpc.ops_http import MOST_CONNECTIONS, OpsHttp, Page
from sidecar.rpc.socket_files import AddressHeld, CannotListen


async def shown(accept: str) -> Page:
    """A page that shows what was accepted."""
    return Page(200, "text/plain", accept.encode())


async def broken(accept: str) -> Page:
    """A page that cannot be made."""
    raise ValueError("canary")


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[str, list[str]]]:
    """Serve two pages; give the address and what went wrong."""
    defects: list[str] = []
    http = OpsHttp({"/shown": shown, "/broken": broken}, lambda path, error: defects.append(f"{path} {error}"))
    async with http.listening("127.0.0.1:0") as address:
        yield address, defects


async def said(address: str, request: bytes) -> bytes:
    """Send bytes; return everything that comes back."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_bytes", "first_line", "body"),
    [
        (b"GET /shown HTTP/1.1\r\nhost: x\r\naccept: a\r\naccept: b\r\n\r\n", b"HTTP/1.1 200 ", b"a, b"),
        (b"GET /shown?x=1 HTTP/1.1\r\nhost: x\r\n\r\n", b"HTTP/1.1 200 ", b""),
        (b"GET /elsewhere HTTP/1.1\r\nhost: x\r\n\r\n", b"HTTP/1.1 404 ", b"there are: /metrics /healthz /readyz\n"),
        (b"POST /shown HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 405 ", b"GET only\n"),
        (b"\x16\x03\x01 no HTTP at all\r\n\r\n", b"HTTP/1.1 400 ", b"not HTTP/1.1\n"),
        (b"GET /shown HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 40_000, b"HTTP/1.1 400 ", b"not HTTP/1.1\n"),
    ],
    ids=["page", "query", "unknown", "not a get", "not HTTP", "too large"],
)
async def test_every_request_gets_its_status(request_bytes: bytes, first_line: bytes, body: bytes) -> None:
    """Pages, and all the ways to ask for none."""
    async with serving() as (address, _):
        answer = await said(address, request_bytes)
    assert answer.startswith(first_line)
    assert answer.partition(b"\r\n\r\n")[2] == body


async def test_a_page_that_cannot_be_made_says_nothing_of_why() -> None:
    """The reason goes to the log, and the listener goes on."""
    async with serving() as (address, defects):
        answer = await said(address, b"GET /broken HTTP/1.1\r\nhost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 500 ")
        assert b"canary" not in answer
        assert defects == ["/broken canary"]
        assert (await said(address, b"GET /shown HTTP/1.1\r\nhost: x\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_connections_are_bounded() -> None:
    """Silent ones fill the room; the next is closed at once; when one leaves, there is room again."""
    async with serving() as (address, _):
        host, _, port = address.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(MOST_CONNECTIONS)]
        assert await said(address, b"") == b""
        silent[0][1].close()
        await silent[0][1].wait_closed()
        while not await said(address, b"GET /shown HTTP/1.1\r\nhost: x\r\n\r\n"):
            pass
        for _, writer in silent:
            writer.close()


async def test_an_address_that_cannot_be_had_is_told_apart() -> None:
    """In use by another, and not ours at all."""
    async with serving() as (address, _):
        with pytest.raises(AddressHeld, match="in use by another process"):
            async with OpsHttp({}, lambda path, error: None).listening(address):
                pass
    with pytest.raises(CannotListen):
        async with OpsHttp({}, lambda path, error: None).listening("192.0.2.1:9464"):
            pass
