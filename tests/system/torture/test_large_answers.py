"""How long binds of other users take while a data service sends the largest answers that it may.

The figures are printed; what is asserted are outcomes: each answer is released, and each bind is answered.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from subagents_client import ToolCall, TurnRequest
from subagents_client.runner import DataUnavailable, HostLimits, Run, RunnerHost
from tests.support.sidecar_process import ROOT, SidecarProcess, place, started
from tests.system.torture.places import LIMIT, SECONDS, tell

pytestmark = [pytest.mark.system, pytest.mark.seconds(LIMIT)]

SIZES: Final = {"small": 1_000, "default": 250_000, "largest": 1_000_000}
"""Bytes of a payload; the second is within the default limit of a tool, the third within the largest that there is."""
BINDS: Final = 500 if SECONDS else 50
HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
RATE: Final = 50
"""Binds a second, by the load generator in a process of its own: this one is busy with large answers."""


def envelope(principal: str, nonce: str, size: int) -> bytes:
    """Return the envelope of many offers, of about so many bytes."""
    offer = {"offer_id": "o-1", "title": "Half price", "merchant": "Corner", "points": 10, "tags": ["food", "near"]}
    count = max(1, size // (len(json.dumps(offer)) + 2))
    payload = {"query": "food", "offers": [offer] * count}
    members = {"domain_type": "offers", "enricher_id": "offer_search", "version": "1.4.0", "principal": principal}
    return json.dumps({**members, "nonce": nonce, "status": "ok", "payload": payload, "partial": []}).encode()


@asynccontextmanager
async def data_service(size: int) -> AsyncIterator[str]:
    """Serve one answer again and again; gives the address."""
    kept: dict[str, bytes] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length:")[2].partition("\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
                principal = asked["principal"]
                if principal not in kept:
                    kept[principal] = envelope(principal, "NONCE", size)
                body = kept[principal].replace(b"NONCE", asked["nonce"].encode())
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
                )
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield "http://{}:{}".format(*server.sockets[0].getsockname()[:2])


async def binds_of_others(sidecar: SidecarProcess) -> dict[str, Any]:
    """Have the load generator bind turns of other users; returns its report."""
    where = [
        "--target",
        sidecar.dispatch_target,
        "--boot-secret-file",
        str(sidecar.folder / "dispatch" / "boot-secret"),
    ]
    what = ["--scenario", "bind", "--rate", str(RATE), "--requests", str(BINDS), "--warm-up", "0s", "--json", "--quiet"]
    command = [sys.executable, "-m", "subagents_loadgen", *where, *what]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    said, _ = await process.communicate()
    report: dict[str, Any] = json.loads(said)
    return report


def configured(folder: Path, address: str) -> None:
    """Have the tool ask the service of the test, take any payload of that size, and the card call it often."""
    file = folder / "config" / "agent_config.yaml"
    text = file.read_text(encoding="utf-8").replace("http://127.0.0.1:8480", address)
    begin = text.index("  - id: search_offers")
    schema = text.index("    payload_schema:", begin)
    end = text.index("  - id: ", schema)
    tool = "    max_response_bytes: 1048576\n    payload_schema: {type: object}\n\n"
    text = text[:schema] + tool + text[end:]
    for limit in ("tool_calls: 6", "attempt_timeout: 20s", "wall_clock: 30s", "idle_timeout: 10s"):
        name, _, value = limit.partition(": ")
        text = text.replace(f"      {limit}\n", f"      {name}: {'1000000' if value == '6' else '90s'}\n")
    file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("kind", SIZES)
async def test_binds_go_on_while_large_answers_are_judged(kind: str) -> None:
    """One sub-agent asks for the answer as fast as it comes; other users bind meanwhile."""
    released: list[int] = []
    enough, begun = asyncio.Event(), asyncio.Event()

    async def shop(run: Run) -> str:
        while not enough.is_set():
            found = await run.call_tool("search_offers", {"query": "food"})
            assert not isinstance(found, DataUnavailable)
            released.append(len(found.payload["offers"]))
            begun.set()
        return "done"

    with place() as folder:
        async with data_service(SIZES[kind]) as address:
            configured(folder, address)
            host = RunnerHost(limits=HostLimits())
            host.sub_agent("shop")(shop)
            async with host.serving(f"unix:{folder}/shop.sock"), started(folder) as sidecar:
                await sidecar.event("sidecar.readiness")
                async with sidecar.client() as client:
                    turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="e-1"))
                    call = ToolCall("call-1", "ask_shop", '{"request": "food"}')
                    running = asyncio.create_task(turn.dispatch_and_wait([call]))
                    await begun.wait()
                    report = await binds_of_others(sidecar)
                    enough.set()
                    result = await running
    assert [each.outcome.name for each in result.outcomes] == ["SUCCEEDED"]
    operations, bind = report["operations"], report["latency_us"]["bind"]
    assert (operations["measured"], operations["failed"]) == (BINDS, 0)
    figures = {f"ms {which}": round(bind[which] / 1000, 1) for which in ("p50", "p99", "max")}
    tell(f"binds beside {kind} answers", 0, {"answers": len(released), **figures})
