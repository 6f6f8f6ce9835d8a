"""The ops address, byte by byte."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sidecar.rpc.ops_http import MOST_CONNECTIONS, OpsHttp, Page
from sidecar.rpc.socket_files import AddressInUse, CannotListen

HUGE = b"GET /huge HTTP/1.1\r\nhost: x\r\n\r\n"


async def shown(accept: str) -> Page:
    """A page that shows what was accepted."""
    return Page(200, "text/plain", accept.encode())


async def huge(accept: str) -> Page:
    """A page that no socket takes in one go."""
    return Page(200, "text/plain", b"x" * 10_000_000)


async def broken(accept: str) -> Page:
    """A page that cannot be made."""
    raise ValueError("canary")


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[str, list[str]]]:
    """Serve two pages; give the address and what went wrong."""
    defects: list[str] = []
    http = OpsHttp(
        {"/shown": shown, "/broken": broken, "/huge": huge}, lambda path, error: defects.append(f"{path} {error}")
    )
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
        (b"HEAD /shown HTTP/1.1\r\nhost: x\r\n\r\n", b"HTTP/1.1 405 ", b""),
        (b"\x16\x03\x01 no HTTP at all\r\n\r\n", b"HTTP/1.1 400 ", b"not HTTP/1.1\n"),
        (b"GET /shown HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 40_000, b"HTTP/1.1 400 ", b"not HTTP/1.1\n"),
    ],
    ids=["page", "query", "unknown", "not a get", "head", "not HTTP", "too large"],
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


@pytest.mark.parametrize("first", [b"", b"GET /shown HT", HUGE], ids=["nothing", "half a request", "reads nothing"])
async def test_connections_that_do_nothing_take_no_room_from_those_that_ask(first: bytes) -> None:
    """More than there is room for, silent or not reading their answer: each of 60 requests behind them has its own."""
    async with serving() as (address, _):
        host, _, port = address.rpartition(":")
        idle = [await asyncio.open_connection(host, int(port), limit=1024) for _ in range(MOST_CONNECTIONS + 8)]
        for _, writer in idle:
            writer.write(first)
        answers = [await said(address, b"GET /shown HTTP/1.1\r\nhost: x\r\n\r\n") for _ in range(60)]
        assert [answer[:13] for answer in answers] == [b"HTTP/1.1 200 "] * 60
        for _, writer in idle:
            writer.transport.abort()


async def test_what_is_being_answered_stays_while_silent_connections_can_make_room() -> None:
    """A page that takes its time, then as many silent connections as there is room for: it arrives."""
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(accept: str) -> Page:
        asked.set()
        await may_answer.wait()
        return Page(200, "text/plain", b"slow")

    async with OpsHttp({"/slow": slow}, lambda path, error: None).listening("127.0.0.1:0") as address:
        host, _, port = address.rpartition(":")
        answer = asyncio.ensure_future(said(address, b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n"))
        await asked.wait()
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(MOST_CONNECTIONS)]
        assert await silent[0][0].read() == b""
        may_answer.set()
        assert (await answer).endswith(b"slow")
        for _, writer in silent:
            writer.close()


async def test_a_silent_connection_is_closed() -> None:
    """Nobody needs its room; it has as long as a request may take to be whole."""
    async with OpsHttp({}, lambda path, error: None, silence=0.01).listening("127.0.0.1:0") as address:
        assert await said(address, b"GET /shown HT") == b""


async def test_an_address_that_cannot_be_had_is_told_apart() -> None:
    """In use by another, and not ours at all."""
    async with serving() as (address, _):
        with pytest.raises(AddressInUse, match="in use by another process"):
            async with OpsHttp({}, lambda path, error: None).listening(address):
                pass
    with pytest.raises(CannotListen):
        async with OpsHttp({}, lambda path, error: None).listening("192.0.2.1:9464"):
            pass


@pytest.mark.parametrize(("address", "others_reach_it"), [("0.0.0.0:0", True), ("127.0.0.1:0", False)])
async def test_an_address_of_the_pod_is_reached_from_outside_and_loopback_is_not(
    address: str, others_reach_it: bool
) -> None:
    """127.0.0.2 stands for the pod's address here: it is another address of this machine."""
    http = OpsHttp({"/shown": shown}, lambda _path, _error: None)
    async with http.listening(address) as served:
        elsewhere = f"127.0.0.2:{served.rpartition(':')[2]}"
        if others_reach_it:
            answer = await said(elsewhere, b"GET /shown HTTP/1.1\r\nhost: pod\r\naccept: yes\r\n\r\n")
            assert answer.endswith(b"yes")
        else:
            with pytest.raises(ConnectionRefusedError):
                await said(elsewhere, b"")
