"""A turn keeps its surface over restarts and on other replicas, whatever became of its definitions meanwhile.

Every process here is a real one, and is killed, not stopped. The definitions that a turn was bound to are changed or
taken away before: only what is kept by digest can still tell what they were.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

import grpc
import pytest
import yaml

from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc
from tests.support.harness import outcome_name
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.requests import a_bind, a_call, failure_of
from tests.support.requirement import requirement
from tests.support.sidecar_process import SidecarProcess, place, serving
from tests.system.torture.agents import WAITS, Agents, agents_for, share_agents
from tests.system.torture.places import settings_of

pytestmark = pytest.mark.system

SOON = {"SIDECAR__DISPATCH__RECORD_POLL_INTERVAL": "200ms"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own, with definitions."""
    with place() as path:
        yield path


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of our own: it is stopped here."""
    with running_postgres() as server:
        yield server


@asynccontextmanager
async def talking(folder: Path) -> AsyncIterator[tuple[Any, Any]]:
    """Give the stub of whichever process serves there, and the metadata that lets in."""
    secret = (folder / "dispatch" / "boot-secret").read_text().strip()
    async with grpc.aio.insecure_channel(f"unix:{folder}/dispatch/sidecar.sock") as channel:
        yield dispatch_pb2_grpc.DispatchServiceStub(channel), ((BOOT_SECRET_KEY, secret),)


async def bind(folder: Path, turn_id: str) -> pb.BindTurnResponse:
    """Bind a turn."""
    async with talking(folder) as (stub, metadata):
        bound: pb.BindTurnResponse = await stub.BindTurn(a_bind(turn_id=turn_id), metadata=metadata, timeout=10)
        return bound


def asking(bound: pb.BindTurnResponse, *tools: str, request: str = "what is new?", **fields: Any) -> pb.DispatchRequest:
    """Return a dispatch `d-1` of the turn."""
    calls = [a_call(tool, tool, f'{{"request": "{request}"}}') for tool in tools]
    digest = bound.surface.binding_digest
    return pb.DispatchRequest(
        surface_token=bound.surface_token, binding_digest=digest, dispatch_id="d-1", calls=calls, **fields
    )


async def dispatch(folder: Path, bound: pb.BindTurnResponse, *tools: str) -> list[str]:
    """Call sub-agents with the token; return the outcomes."""
    async with talking(folder) as (stub, metadata):
        unary = pb.DispatchUnaryRequest(dispatch=asking(bound, *tools))
        answer = await stub.DispatchUnary(unary, metadata=metadata, timeout=20)
    return [outcome_name(each.outcome) for each in answer.result.outcomes]


def digests(bound: pb.BindTurnResponse) -> dict[str, str]:
    """Return the digest behind each tool."""
    return {tool.sub_agent_id: tool.digest for tool in bound.surface.sub_agent_tools}


def change_definitions(folder: Path) -> None:
    """Revise `shop` by other words, and take `rewards` away: off the list, and out of the file."""
    file = folder / "config" / "agent_config.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    config["agents"] = [each for each in config["agents"] if each["id"] != "rewards"]
    for each in config["agents"]:
        if each["id"] == "shop":
            each["description"] = "Knows all shops, in other words."
        if "rewards" in each.get("sub_agents", ()):
            each["sub_agents"].remove("rewards")
    fresh = file.with_suffix(".new")
    fresh.write_text(yaml.safe_dump(config), encoding="utf-8")
    fresh.rename(file)


async def changed_and_killed(sidecar: SidecarProcess) -> None:
    """Change the definitions, and kill the process once its binds follow them."""
    before = (await sidecar.event("definitions.on_record"))["version"]
    change_definitions(sidecar.folder)
    await sidecar.event("definitions.on_record", lambda said: said["version"] != before)
    sidecar.signal(SIGKILL)
    await sidecar.ended()


def ran(agents: Agents) -> dict[str, str]:
    """Return the digest that each sub-agent was last asked as."""
    return {run.sub_agent_id: run.digest for run in agents.runs}


@requirement("PF1-FR-8b")
async def test_a_turn_keeps_its_surface_over_a_kill_though_its_definitions_were_changed_and_removed(
    folder: Path,
) -> None:
    """The next process has neither the orchestrator, the shop nor the rewards it was bound to; new turns follow it."""
    more = settings_of(folder, folder)
    async with agents_for(folder, Random(1)) as agents:
        async with serving(folder, more=more) as sidecar:
            bound = await bind(folder, "turn-1")
            await changed_and_killed(sidecar)
        async with serving(folder, more=more):
            outcomes = await dispatch(folder, bound, "ask_shop", "ask_rewards")
            newest = await bind(folder, "turn-2")

    assert outcomes == ["SUCCEEDED", "SUCCEEDED"]
    assert ran(agents) == {slot: digest for slot, digest in digests(bound).items() if slot != "support"}
    assert "rewards" not in digests(newest)
    assert digests(newest)["shop"] != digests(bound)["shop"]
    assert newest.surface.cohort.agent_definition_version != bound.surface.cohort.agent_definition_version


@requirement("PF1-FR-8b", "SX-50")
async def test_a_dispatch_that_ran_when_its_sidecar_was_killed_goes_on_as_what_it_was_bound_to(folder: Path) -> None:
    """Its parent resumes it at the next process: the second attempt is of the same digest as the first."""
    more = settings_of(folder, folder)
    async with agents_for(folder, Random(1)) as agents:
        async with serving(folder, more=more) as sidecar:
            bound = await bind(folder, "turn-1")
            async with talking(folder) as (stub, metadata):
                begun = stub.Dispatch(asking(bound, "ask_shop", request=WAITS), metadata=metadata, timeout=20)
                await agents.until_started(1)
                await changed_and_killed(sidecar)
                with pytest.raises(grpc.aio.AioRpcError):
                    _ = [frame async for frame in begun]
        async with serving(folder, more=more, environment=SOON), talking(folder) as (stub, metadata):
            resume = pb.ResumeDispatchRequest(surface_token=bound.surface_token, dispatch_id="d-1")
            frames = [each.frame async for each in stub.ResumeDispatch(resume, metadata=metadata, timeout=20)]

    assert [outcome_name(each.outcome) for each in frames[-1].result.outcomes] == ["SUCCEEDED"]
    assert [(run.attempt, run.digest) for run in agents.runs] == [(n, digests(bound)["shop"]) for n in (1, 2)]


@requirement("PF1-FR-8b")
async def test_a_replica_that_never_had_the_definitions_reads_them_and_says_when_it_cannot(
    server: PostgresServer,
) -> None:
    """Two on one PostgreSQL with different definitions. While that is away: to be tried again, and then it works."""
    dsn = server.dsn(server.new_database())
    with place() as one, place() as two:
        share_agents(one, two)
        change_definitions(two)
        async with (
            agents_for(one, Random(1)) as agents,
            serving(one, more=settings_of(one, one, dsn, "10s")),
        ):
            first, second = await bind(one, "turn-1"), await bind(one, "turn-2")
            async with serving(two, more=settings_of(two, one, dsn, "10s")):
                elsewhere = await dispatch(two, first, "ask_shop", "ask_rewards")
                server.kill()
                away = await failure_of(dispatch(two, second, "ask_shop"))
                server.start_again()
                back = await dispatched_at_last(two, second)

    assert elsewhere == ["SUCCEEDED", "SUCCEEDED"]
    assert (away.code, away.reason) == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
    assert away.retry_after is not None
    assert back == ["SUCCEEDED"]
    assert {run.digest for run in agents.runs} == {digests(first)[slot] for slot in ("shop", "rewards")}


async def dispatched_at_last(folder: Path, bound: pb.BindTurnResponse) -> list[str]:
    """Ask again as long as the store is said to be away: the sidecar's connections take a moment to come back."""
    while True:
        try:
            return await dispatch(folder, bound, "ask_shop")
        except grpc.aio.AioRpcError as refused:
            if refused.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
