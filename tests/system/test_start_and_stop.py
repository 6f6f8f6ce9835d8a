"""The sidecar as a process: start, refusal, another one beside it, death, drain."""

import asyncio
import signal
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from subagents_client import CallOutcome, ClientTimeouts, Outcome, SidecarClient, ToolCall, TurnRequest
from subagents_client.runner import Run, RunnerHost
from subagents_errors import BootSecretWrong, Draining
from tests.support.requirement import requirement
from tests.support.sidecar_process import SidecarProcess, place, serving, started

pytestmark = pytest.mark.system

ASK_SHOP = ToolCall("call-1", "ask_shop", '{"request": "headphones"}')


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a sidecar keeps its files."""
    with place() as made:
        yield made


@dataclass
class Shop:
    """A sub-agent that answers when it is told to."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, run: Run) -> str:
        """Say that it was asked, wait, answer."""
        self.asked.set()
        await self.may_answer.wait()
        return "Two offers fit."


@asynccontextmanager
async def shop_host(folder: Path) -> AsyncIterator[Shop]:
    """Serve the slot `shop` inside this test."""
    shop, host = Shop(), RunnerHost()
    host.sub_agent("shop")(shop.answer)
    async with host.serving(f"unix:{folder}/shop.sock"):
        yield shop


async def grpc_health(target: str) -> int:
    """Return what a listener says of itself."""
    async with grpc.aio.insecure_channel(target) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=5, wait_for_ready=True)
    return int(answer.status)


async def bind(client: SidecarClient) -> list[str]:
    """Bind a turn; return the names of its tools."""
    turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
    return [tool.name for tool in turn.surface.sub_agent_tools]


async def test_a_started_sidecar_answers_on_all_its_listeners(folder: Path) -> None:
    """Health on both sockets and over HTTP, and a bind with the secret that it made."""
    async with serving(folder) as sidecar:
        assert await grpc_health(sidecar.dispatch_target) == health_pb2.HealthCheckResponse.SERVING
        assert await grpc_health(f"unix:{folder}/agents/sidecar.sock") == health_pb2.HealthCheckResponse.SERVING
        assert ((await sidecar.page("/healthz")).status_code, (await sidecar.page("/readyz")).status_code) == (200, 200)
        async with sidecar.client() as client:
            assert "ask_shop" in await bind(client)


async def test_who_does_not_know_the_secret_gets_health_and_nothing_else(folder: Path) -> None:
    """No secret, and another one."""
    async with serving(folder) as sidecar:
        for wrong in ("", "another-secret"):
            async with SidecarClient.connect(sidecar.dispatch_target, boot_secret=wrong) as client:
                with pytest.raises(BootSecretWrong):
                    await bind(client)
        assert await grpc_health(sidecar.dispatch_target) == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.real_start
async def test_sockets_and_secret_are_for_their_owner_only(folder: Path) -> None:
    """Directories 0700, sockets 0600, the secret 0400 with 256 bits; nothing of it in the log."""
    async with serving(folder) as sidecar:
        modes = {
            path: stat.S_IMODE((folder / path).stat().st_mode)
            for path in ("dispatch", "agents", "dispatch/sidecar.sock", "agents/sidecar.sock", "dispatch/boot-secret")
        }
        assert list(modes.values()) == [0o700, 0o700, 0o600, 0o600, 0o400]
        assert len(sidecar.boot_secret) == 43
        assert sidecar.boot_secret not in sidecar.text


@pytest.mark.parametrize(
    ("more", "environment", "said"),
    [
        (
            "[dispach]\nx = 1\n[log.more]\ny = 2\n[server.limits]\nmesage_bytes = 1\n",
            {"SIDECAR__DISPATCH__FAN_OUT_CAPS": "2", "SIDECAR__LOG__LEVEL": "loud"},
            [
                "sidecar.toml: dispach: no such setting; did you mean `dispatch`?",
                "sidecar.toml: log.more: no such setting",
                "sidecar.toml: server.limits.mesage_bytes: no such setting; did you mean `message_bytes`?",
                "SIDECAR__DISPATCH__FAN_OUT_CAPS: no setting is called dispatch.fan_out_caps; "
                "did you mean `fan_out_cap`?",
                "SIDECAR__LOG__LEVEL: must be 'debug', 'info', 'warning' or 'error'",
            ],
        ),
        (
            "",
            {"SIDECAR__SERVER__OPS_ADDRESS": "pod:9464"},
            ["OPS_ADDRESS: 'pod' is not an IP address"],
        ),
        (
            "",
            {"SIDECAR__SERVER__DISPATCH_SOCKET": "0.0.0.0:7000"},
            ["is a TCP address, which is served with mutual TLS only"],
        ),
        ('[policy.verticals.shop]\nflags = "fiel"\n', {}, ["no flag-backend named `fiel`", "did you mean `file`?"]),
        ('[flags.file]\nplugin = "file"\npath = "x.yaml"\n', {}, ["flags.file.path: "]),
        ('[plugins]\nenabled = ["flags-nowhere"]\n', {}, ["`flags-nowhere` is not installed"]),
        ('[keys.files]\na = "/nowhere/key"\n', {}, ["keys.files.a: /nowhere/key cannot be read"]),
    ],
    ids=["unknown names", "ops at a name", "TCP", "unknown plugin", "unused section", "not installed", "no key"],
)
async def test_a_start_that_is_refused_says_everything_that_is_wrong(
    folder: Path, more: str, environment: dict[str, str], said: list[str]
) -> None:
    """Exit code 78, and each problem with its place."""
    async with started(folder, more=more, environment=environment) as sidecar:
        assert await sidecar.ended() == 78
    assert [one for one in said if one not in sidecar.text] == []


async def test_a_second_sidecar_leaves_the_first_alone(folder: Path) -> None:
    """Same record and sockets: the second ends with 69 and a sentence, the first goes on binding turns."""
    async with serving(folder) as first, first.client() as client:
        async with started(folder) as second:
            assert await second.ended() == 69
        assert "is open in another process" in second.text
        assert "ask_shop" in await bind(client)


async def test_a_socket_left_by_a_killed_sidecar_is_taken(folder: Path) -> None:
    """SIGKILL removes nothing; the next start finds the lock free."""
    async with serving(folder) as killed:
        killed.signal(signal.SIGKILL)
        assert await killed.ended() == -signal.SIGKILL
    assert (folder / "dispatch" / "sidecar.sock").is_socket()
    async with serving(folder) as sidecar, sidecar.client() as client:
        assert "ask_shop" in await bind(client)


async def test_an_open_directory_is_refused(folder: Path) -> None:
    """Whoever may enter it could put a socket of their own there."""
    (folder / "agents").mkdir(mode=0o755)
    async with started(folder) as sidecar:
        assert await sidecar.ended() == 78
    assert f"chmod 0700 {folder}/agents" in sidecar.text


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
async def test_a_stop_signal_lets_a_running_dispatch_end(folder: Path, stop_signal: signal.Signals) -> None:
    """Health says no at once, new turns are refused with a hint, the running call succeeds, exit code 0."""
    async with serving(folder) as sidecar, shop_host(folder) as shop, sidecar.client() as client:
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
        dispatch = asyncio.create_task(turn.dispatch_and_wait([ASK_SHOP]))
        await shop.asked.wait()

        sidecar.signal(stop_signal)

        await sidecar.event("sidecar.draining")
        assert await grpc_health(sidecar.dispatch_target) == health_pb2.HealthCheckResponse.NOT_SERVING
        assert (await sidecar.page("/readyz")).status_code == 503
        await refused_to_bind(sidecar)
        shop.may_answer.set()
        outcomes: list[CallOutcome] = list((await dispatch).outcomes)
        assert [outcome.outcome for outcome in outcomes] == [Outcome.SUCCEEDED]
        await turn.end("Here they are.")
        assert await sidecar.ended() == 0
    assert (await sidecar.event("sidecar.stopped"))["cut_off_turns"] == 0


NO_MARGIN = {"SIDECAR__SERVER__DRAIN_MARGIN": "0s"}


async def test_a_turn_that_was_never_ended_is_left_to_its_parent_and_does_not_hold_up_a_stop(folder: Path) -> None:
    """Its call is over, and 110 seconds of grace are not waited for; after the restart the parent ends it as usual.

    The log says what is left and what becomes of it; nothing of the turn is lost.
    """
    (folder / "signing.key").write_text("k" * 43)
    (folder / "signing.key").chmod(stat.S_IRUSR)
    more = f'[keys.files]\na1 = "{folder}/signing.key"\n'
    async with shop_host(folder) as shop:
        shop.may_answer.set()
        async with serving(folder, more=more, environment=NO_MARGIN) as sidecar, sidecar.client() as client:
            turn = await client.bind_turn(TurnRequest(turn_id="t-1", principal="user-1", episode_id="episode-1"))
            told = (await turn.dispatch_and_wait([ASK_SHOP])).outcomes
            sidecar.signal(signal.SIGTERM)
            assert await sidecar.ended() == 0
            stopped = await sidecar.event("sidecar.stopped")
        async with serving(folder, more=more) as restarted, restarted.client() as client:
            again = await client.bind_turn(TurnRequest(turn_id="t-1", principal="user-1", episode_id="episode-1"))
            await again.end("Two offers fit.")
            decision = await restarted.event("routing.decision")

    assert (stopped["left_turns"], stopped["cut_off_turns"], stopped["oldest"]) == (1, 0, ["t-1"])
    assert "can be ended at another sidecar" in stopped["message"]
    assert [outcome.outcome for outcome in told] == [Outcome.SUCCEEDED]
    assert (decision["turn_id"], decision["close_reason"]) == ("t-1", "ended")
    assert [call["outcome"] for call in decision["calls"]] == ["succeeded"]


async def test_a_turn_that_nobody_else_could_end_is_ended_by_the_stop(folder: Path) -> None:
    """The key of its token goes with the process: the turn is closed for its parent; nothing waits for the grace."""
    async with serving(folder, environment=NO_MARGIN) as sidecar, shop_host(folder) as shop, sidecar.client() as client:
        shop.may_answer.set()
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
        await turn.dispatch_and_wait([ASK_SHOP])
        sidecar.signal(signal.SIGTERM)
        assert await sidecar.ended() == 0
        assert (await sidecar.event("routing.decision"))["close_reason"] == "parent_lost"
        assert (await sidecar.event("sidecar.stopped"))["ended_turns"] == 1


async def refused_to_bind(sidecar: SidecarProcess) -> None:
    """Bind until it is refused, by a client that takes the first refusal for an answer."""
    async with sidecar.client(ClientTimeouts(most_attempts=1)) as client:
        while True:
            try:
                await bind(client)
            except Draining:
                return


async def test_a_second_signal_shortens_the_wait_and_keeps_the_records(folder: Path) -> None:
    """The sub-agent never answers; every call still has its outcome and the turn its routing decision."""
    async with serving(folder) as sidecar, shop_host(folder) as shop, sidecar.client() as client:
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
        dispatch = asyncio.create_task(turn.dispatch_and_wait([ASK_SHOP]))
        await shop.asked.wait()
        sidecar.signal(signal.SIGTERM)
        await sidecar.event("sidecar.draining")

        sidecar.signal(signal.SIGTERM)

        assert await sidecar.ended() == 0
        assert [outcome.outcome for outcome in (await dispatch).outcomes] == [Outcome.FAILED]
        decision = await sidecar.event("routing.decision")
        assert (decision["close_reason"], decision["calls"][0]["sub_agent_id"]) == ("parent_lost", "shop")
        shop.may_answer.set()


@requirement("PC2-FR-15a")
async def test_a_turn_without_calls_leaves_a_routing_decision(folder: Path) -> None:
    """With the whole candidate set, in the log; and nothing of the user in it."""
    async with serving(folder) as sidecar, sidecar.client() as client:
        turn = await client.bind_turn(TurnRequest(principal="user-canary-7", episode_id="episode-1"))
        await turn.end("Nothing to look up.")
        decision = await sidecar.event("routing.decision")
    assert {each["slot"] for each in decision["candidates"]} == {"shop", "rewards", "support"}
    assert (decision["invoked"], decision["intent_count"], decision["cap"]) == ([], 0, "within")
    assert "user-canary-7" not in sidecar.text
