"""A real PostgreSQL that is killed, stopped, out of reach or cut off in the middle of a commit, again and again.

Short in `make test`; `SIDECAR_TORTURE_DATABASE_FAULTS` sets how often each of the two runs strikes, and
`SIDECAR_TORTURE_SECONDS` makes it last as long. Both print seed and figures.
"""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import TurnId
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.record_builders import a_dispatch
from tests.support.requirement import requirement
from tests.system.postgres_faults.children_at_work import Children, children_at_work
from tests.system.postgres_faults.unreliable_network import Fault, Network, network_before

pytestmark = pytest.mark.system

TORTURE = float(os.environ.get("SIDECAR_TORTURE_SECONDS", "0"))
Strike = Callable[[], Awaitable[None]]
FAULTS = int(os.environ.get("SIDECAR_TORTURE_DATABASE_FAULTS") or 6)
"""Faults of a run at least."""
LIMIT = TORTURE + 60 + 4 * FAULTS


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of our own: what happens to it would disturb others."""
    with running_postgres() as server:
        yield server


@requirement("SX-38")
@pytest.mark.seconds(LIMIT)
async def test_nothing_acknowledged_is_lost_when_the_server_dies(server: PostgresServer) -> None:
    """Postmaster and backends are killed, told to end, or stopped and continued, while children append."""
    seed, done = random.randrange(10**6), Counter[str]()
    chosen = random.Random(seed)
    async with children_at_work(server.dsn(server.new_database())) as children:
        faults: list[tuple[str, Strike]] = [
            ("postmaster killed", partial(_kill_and_start, server)),
            ("backend killed", partial(_signal_a_backend, server, chosen, signal.SIGKILL)),
            ("backend ended", partial(_signal_a_backend, server, chosen, signal.SIGTERM)),
            ("backend stopped", partial(_stop_and_continue, server, children)),
        ]
        await _strike(children, chosen, faults, done)
    _tell("server", seed, done, children)
    assert len(done) == 4


@requirement("SX-38")
@pytest.mark.seconds(LIMIT)
async def test_nothing_is_lost_or_doubled_when_answers_get_lost(server: PostgresServer, short_folder: Path) -> None:
    """The network cuts commits before, while and after they are sent, or swallows everything for a while."""
    seed, done = random.randrange(10**6), Counter[str]()
    chosen = random.Random(seed)
    over_network = network_before(server, short_folder, server.new_database())
    async with over_network as (network, dsn), children_at_work(dsn) as children:
        faults: list[tuple[str, Strike]] = [(fault.name.lower(), partial(_cut, network, fault)) for fault in Fault]
        faults.append(("silence", partial(_be_silent, network, children)))
        await _strike(children, chosen, faults, done)
    _tell("network", seed, done, children)
    assert done.keys() == {"silence", *(fault.name.lower() for fault in Fault)}
    assert children.unknown >= 3


async def test_a_server_that_is_away_refuses_in_time_and_is_found_again(
    server: PostgresServer, short_folder: Path
) -> None:
    """Reads and appends are refused; nothing waits for the sidecar to be started again."""
    over_network = network_before(server, short_folder, server.new_database())
    async with over_network as (network, dsn), children_at_work(dsn) as children:
        await children.progress(5)
        network.silent = True
        async with asyncio.timeout(10):
            with pytest.raises(StoreUnavailable):
                await children.store.turn(TurnId("nobody"))
            with pytest.raises(StoreUnavailable):
                await children.journal.renew_lease()
            with pytest.raises(StoreUnavailable):
                await children.store.append([a_dispatch("another")])
        network.silent = False
        network.cut()
        await children.progress(5)
        assert await children.store.turn(TurnId("nobody")) is None


async def _strike(
    children: Children,
    chosen: random.Random,
    faults: list[tuple[str, Callable[[], Awaitable[None]]]],
    done: Counter[str],
) -> None:
    """Let one thing after the other go wrong, each kind at least once, and let the children get on in between."""
    until = asyncio.get_running_loop().time() + TORTURE
    while len(done) < len(faults) or done.total() < FAULTS or asyncio.get_running_loop().time() < until:
        missing = [fault for fault in faults if fault[0] not in done]
        name, strike = chosen.choice(missing or faults)
        await children.progress(chosen.randint(1, 60))
        await strike()
        done[name] += 1
        await children.progress(5)


async def _kill_and_start(server: PostgresServer) -> None:
    server.kill()
    await asyncio.to_thread(server.start_again)


async def _signal_a_backend(server: PostgresServer, chosen: random.Random, number: signal.Signals) -> None:
    backends = await asyncio.to_thread(server.backends)
    if backends:
        os.kill(chosen.choice(backends), number)


async def _stop_and_continue(server: PostgresServer, children: Children) -> None:
    """Stop the backend that writes: only the client's own limit helps; then let it go on with what it had."""
    unknown = children.unknown
    writing = await asyncio.to_thread(server.backends, "query like '%journal_append%' order by backend_start desc")
    if not writing:
        return
    os.kill(writing[0], signal.SIGSTOP)
    try:
        await children.until(lambda: children.unknown > unknown)
    finally:
        os.kill(writing[0], signal.SIGCONT)


async def _cut(network: Network, fault: Fault) -> None:
    """Cut the next append off."""
    network.struck.clear()
    network.fault = fault
    await network.struck.wait()


async def _be_silent(network: Network, children: Children) -> None:
    """Swallow everything until somebody was refused."""
    network.silent, refused = True, children.refused
    await children.until(lambda: children.refused > refused)
    network.silent = False
    network.cut()


def _tell(what: str, seed: int, done: Counter[str], children: Children) -> None:
    faults = ", ".join(f"{count} {name}" for name, count in sorted(done.items()))
    sys.stdout.write(
        f"\npostgres {what}: seed {seed}; {done.total()} faults ({faults}); {children.count} events acknowledged"
        f" in {children.store.batches} commits, 0 lost or doubled;"
        f" {children.unknown} unknown, {children.refused} refused\n"
    )
