"""The same turn in Restate: a handler that takes eight steps at a time, or calls eight handlers; each sleeps 20 ms.

    python -m scripts.benchmark.durable.restate_turns [--cpu N] [--server-cpu N]

The services and who calls them are this process, the server is a child of it; they talk over loopback. As it starts,
the server asks a place on the internet for its newest release, which no setting turns off: so both run in a network of
their own, from which nothing can be reached.
"""

import argparse
import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

from scripts.benchmark.definitions import ANSWER, MOST_CHILDREN, SLEEP_SECONDS
from scripts.benchmark.durable.answering import answer
from scripts.benchmark.durable.own_network import leave_the_network
from scripts.benchmark.durable.peers import RESTATE_CALLS, RESTATE_STEPS
from scripts.benchmark.durable.restate_server import Restate
from scripts.benchmark.durable.restate_server import restate as running_server
from scripts.benchmark.serving import pin

SERVICE: Final = "bench"
BACKLOG: Final = 128

service = restate.Service(SERVICE)


async def _answer() -> str:
    await asyncio.sleep(SLEEP_SECONDS)
    return ANSWER


@service.handler()
async def ask(_: restate.Context, number: int) -> str:
    """Answer after a while."""
    return await _answer()


@service.handler()
async def steps(context: restate.Context) -> list[str]:
    """Take eight steps at the same time."""
    taken = [context.run_typed(f"ask-{number}", _answer) for number in range(MOST_CHILDREN)]
    await restate.gather(*taken)
    return [await one for one in taken]


@service.handler()
async def calls(context: restate.Context) -> list[str]:
    """Call eight handlers at the same time."""
    called = [context.service_call(ask, number) for number in range(MOST_CHILDREN)]
    await restate.gather(*called)
    return [await one for one in called]


@asynccontextmanager
async def _served() -> AsyncIterator[str]:
    """Serve the handlers on loopback; yields their address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(BACKLOG)
        config = Config()
        config.bind = [f"fd://{os.dup(listening.fileno())}"]  # a copy, because the server closes it
        config.accesslog = config.errorlog = None
        ended = asyncio.Event()
        application = restate.app([service])
        serving = asyncio.create_task(serve(application, config, shutdown_trigger=ended.wait))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ended.set()
            await serving


async def _turn(server: Restate, handler: str) -> Sequence[str]:
    answered = await server.ingress.post(f"/{SERVICE}/{handler}")
    answered.raise_for_status()
    answers: list[str] = answered.json()
    return answers


async def _run(server_cpu: int | None) -> None:
    with TemporaryDirectory(prefix="bench-") as folder:
        async with _served() as address, running_server(Path(folder), address, server_cpu) as server:
            turns = {RESTATE_STEPS: partial(_turn, server, "steps"), RESTATE_CALLS: partial(_turn, server, "calls")}
            await answer(turns, [server.pid])


def main() -> None:
    """Read the command line, and run turns until standard input ends."""
    parser = argparse.ArgumentParser(description="Turns in Restate.")
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--server-cpu", type=int)
    given = parser.parse_args()
    leave_the_network()
    pin(given.cpu)
    asyncio.run(_run(given.server_cpu))


if __name__ == "__main__":
    main()
