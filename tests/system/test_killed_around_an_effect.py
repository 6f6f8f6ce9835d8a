"""A sidecar that is killed at every point around an effect: the service is never asked for it twice.

The process kills itself with SIGKILL exactly at the point; what comes after it is as real as what comes before. Then
another process goes on: on the same SQLite file, or as another sidecar on the same PostgreSQL.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from subagents_client import CallOutcome, ClientTimeouts, SidecarClient, ToolCall, TurnRequest
from subagents_client.runner import Run, RunnerHost
from tests.support.booking_service import BookingService, booking_service
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.sidecar_process import SidecarProcess, place, started
from tests.system.torture.places import QUICK, settings_of

pytestmark = pytest.mark.system

KILLED_AT: Final = """
import os, signal, sys
from sidecar.adapters.connector_rest.connector import RestConnector
from sidecar.adapters.http_client.network import BoundedStream
from sidecar.operations.turn.child.send_effect import SendEffect

def killed(owner, name, *, before, at=lambda given: True):
    original = getattr(owner, name)
    async def dies(*given, **more):
        if not (before and at(given)):
            await original(*given, **more)
        if at(given):
            os.kill(os.getpid(), signal.SIGKILL)
    setattr(owner, name, dies)

def is_body(given):
    return bytes(given[1]).startswith(b"{")

POINTS = {
    "before the key": lambda: killed(SendEffect, "_record", before=True),
    "the key is on record": lambda: killed(SendEffect, "_record", before=False),
    "before the request": lambda: killed(RestConnector, "enrich", before=True),
    "the request is sent": lambda: killed(BoundedStream, "write", before=False, at=is_body),
    "the service has answered": lambda: killed(RestConnector, "enrich", before=False),
    "the answer is checked": lambda: killed(SendEffect, "send", before=False),
}
POINTS[os.environ["KILLED_AT"]]()
sys.argv = ["sidecar", *sys.argv[3:]]
from sidecar.entry import main
main()
"""
CALLS: Final = (ToolCall("call-1", "ask_shop", '{"request": "a table for six"}'),)
PATIENT: Final = ClientTimeouts(
    bind=timedelta(seconds=20),
    unary=timedelta(seconds=10),
    dispatch=timedelta(seconds=20),
    unreachable_after=timedelta(seconds=2),
    most_attempts=40,
)
NOTHING_SENT: Final = ("before the key",)
"""Where the record shows that nothing was sent: another attempt is made, and books."""
POINTS: Final = (
    *NOTHING_SENT,
    "the key is on record",
    "before the request",
    "the request is sent",
    "the service has answered",
    "the answer is checked",
)
SENT: Final = {"the request is sent", "the service has answered", "the answer is checked"}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of our own."""
    with running_postgres() as running:
        yield running


async def books(run: Run) -> str:
    """Book a table, and say so."""
    await run.call_tool("book_table", {"people": 6})
    return "booked"


@asynccontextmanager
async def bookings(folder: Path) -> AsyncIterator[BookingService]:
    """Serve the data service and the sub-agent, which outlive every sidecar; the definitions name the tool."""
    async with booking_service() as service:
        config = folder / "config" / "agent_config.yaml"
        text = config.read_text(encoding="utf-8")
        text = text.replace("\nagents:", f"{service.tool()}\nagents:", 1)
        text = text.replace("tools: [search_offers", "tools: [book_table, search_offers", 1)
        config.write_text(text, encoding="utf-8")
        host = RunnerHost()
        host.sub_agent("shop")(books)
        async with host.serving(f"unix:{folder}/shop.sock"):
            yield service


@asynccontextmanager
async def running(folder: Path, more: str, killed_at: str = "") -> AsyncIterator[SidecarProcess]:
    """Start a sidecar, which kills itself at a point, and wait until it takes turns."""
    python = ("-c", KILLED_AT) if killed_at else ()
    environment = {**QUICK, "SIDECAR__DISPATCH__TURN_LIFETIME": "30s", "KILLED_AT": killed_at}
    async with started(folder, more=more, environment=environment, python=python) as sidecar:
        await sidecar.event("sidecar.readiness")
        yield sidecar


async def asked(folder: Path) -> CallOutcome:
    """Ask for the table, or for the outcome of having asked before."""
    secret = folder / "dispatch" / "boot-secret"
    target = f"unix:{folder}/dispatch/sidecar.sock"
    async with SidecarClient.connect(target, boot_secret_file=secret, timeouts=PATIENT) as client:
        turn = await client.bind_turn(TurnRequest(principal="ada", episode_id="e-1", turn_id="turn-1"))
        return (await turn.dispatch_and_wait(CALLS, dispatch_id="d-1")).outcomes[0]


async def killed_when_asked(folder: Path, sidecar: SidecarProcess) -> None:
    """Ask, and wait until the sidecar has killed itself; its answer is lost."""
    asking = asyncio.create_task(asked(folder))
    assert await sidecar.ended() == -signal.SIGKILL
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


def check(point: str, outcome: CallOutcome, service: BookingService) -> None:
    """Fail unless the table was booked once at most, and the parent knows what is known."""
    assert all(key.startswith("ik1-") for key in service.keys)
    if point in NOTHING_SENT:
        assert (outcome.answered, outcome.narration) == (True, "booked")
        assert len(service.keys) == 1
        return
    assert outcome.status is not None
    assert outcome.status.reason == "EFFECT_UNKNOWN", outcome
    assert len(service.keys) == (1 if point in SENT else 0)


@pytest.mark.seconds(60)
@pytest.mark.parametrize("point", POINTS)
async def test_no_effect_happens_twice_when_the_sidecar_is_killed_and_started_again(point: str) -> None:
    """The record is a SQLite file."""
    with place() as folder:
        async with bookings(folder) as service:
            more = settings_of(folder, folder)
            async with running(folder, more, point) as sidecar:
                await killed_when_asked(folder, sidecar)
            async with running(folder, more):
                outcome = await asked(folder)
            check(point, outcome, service)


@pytest.mark.seconds(60)
@pytest.mark.parametrize("point", POINTS[3:5])
async def test_no_effect_happens_twice_when_another_sidecar_takes_over(point: str, server: PostgresServer) -> None:
    """Two sidecars on one PostgreSQL; the client goes to the second once the first is gone."""
    database = server.new_database()
    with place() as one, place() as two:
        async with bookings(one) as service:
            (two / "shop.sock").symlink_to(one / "shop.sock")
            (two / "config" / "agent_config.yaml").write_text((one / "config" / "agent_config.yaml").read_text())
            settings = [settings_of(folder, one, server.dsn(database)) for folder in (one, two)]
            async with running(one, settings[0], point) as first, running(two, settings[1]):
                await killed_when_asked(one, first)
                outcome = await asked(two)
            check(point, outcome, service)
