"""The processes of durable peers: what they answer, and that one of them reaches nothing but itself."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from scripts.benchmark.durable.answering import WARM_UP
from scripts.benchmark.durable.own_network import possible
from scripts.benchmark.durable.peers import Peer
from scripts.benchmark.processes import REPOSITORY, Process, ServerLost
from scripts.benchmark.serving import READY

ANSWERING = """
import asyncio
from scripts.benchmark.definitions import ANSWER, MOST_CHILDREN
from scripts.benchmark.durable.answering import answer

turns = 0

async def turn():
    global turns
    turns += 1
    return [ANSWER] * (MOST_CHILDREN if turns != {wrong} else 1)

asyncio.run(answer({{"a turn": turn}}))
"""
ALONE = """
import json, socket
from scripts.benchmark.durable.own_network import leave_the_network

leave_the_network()
with socket.create_server(("127.0.0.1", 0)) as listening:
    with socket.create_connection(listening.getsockname()):
        print(json.dumps([name for _, name in socket.if_nameindex()]))
"""


async def test_a_peer_answers_with_latencies_and_cpu_time() -> None:
    """After some turns to warm up, which count for nothing."""
    async with answering(wrong=0) as peer:
        sample = await peer.measure("a turn", 5)

    assert sample.rate > 0
    assert sample.p50 > 0
    assert sample.cpu > 0


@pytest.mark.parametrize("wrong", [1, WARM_UP + 1])
async def test_a_wrong_turn_ends_the_measurement(wrong: int) -> None:
    """Also one that is to warm up: a peer that does less is not measured."""
    async with answering(wrong=wrong) as peer:
        with pytest.raises(ServerLost, match="ended while it measured a turn"):
            await peer.measure("a turn", 5)


async def test_a_process_can_leave_the_network() -> None:
    """It has loopback, on which it can talk, and nothing else."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ALONE, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, errors = await process.communicate()

    assert possible() is (process.returncode == 0)
    if b"Operation not permitted" in errors:
        pytest.skip("missing right: a network of one's own (root, or user namespaces)")
    assert json.loads(out) == ["lo"]


@asynccontextmanager
async def answering(*, wrong: int) -> AsyncIterator[Peer]:
    """Start a peer whose turn of that number lacks answers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        ANSWERING.format(wrong=wrong),
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert (await process.stdout.readline()).decode().strip() == READY
    try:
        yield Peer(Process(process), "a peer")
    finally:
        process.stdin.close()
        await process.wait()
