"""What the incidents happen to: two sidecars on one PostgreSQL, sub-agents, data, traffic, Prometheus, console."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from examples.ccs.server import ReferenceCcs
from examples.demo.definitions import CONFIGURED_ENDPOINT, REPLACEMENT, with_replacement
from examples.gates.server import ReferenceGates
from examples.http_serving import serving as http_serving
from sidecar.cli.console.serving import ConsoleOptions
from subagents_client import ClientTimeouts, SubagentsError, ToolCall, TurnRequest
from subagents_client.runner import Answer, DataUnavailable, Run, RunnerHost
from tests.support.authority import AGENT, DAY, LOCAL, Authority
from tests.support.console_visits import Visitor, served
from tests.support.named_skips import needs_tool
from tests.support.operated_process import free_port
from tests.support.operating import SETTINGS, Operator, prepared
from tests.support.postgres import PostgresServer
from tests.support.prometheus import Server, scraping_all
from tests.support.reference_ccs import RunningCcs
from tests.support.sidecar_process import ROOT, SidecarProcess, place, started
from tests.system.drill.rules import faster_rules
from tests.system.torture.agents import pause
from tests.system.torture.faked_time import FakedTime
from tests.system.torture.full_disk import Disk, small_disk
from tests.system.torture.places import settings_of

SLOTS: Final = ("shop", "rewards", "support")
CALLS: Final = ("shop", "rewards")
"""Of every turn of the usual traffic."""
PACE: Final = 0.25
"""Seconds between two turns of a consumer-agent."""
PATIENT: Final = ClientTimeouts(bind=timedelta(seconds=15), dispatch=timedelta(seconds=20), unary=timedelta(seconds=15))
MORE: Final = """
[dispatch.admission]
idle_turns = 40

[flag_refresh]
fetch_deadline = "1s"
refresh_interval = "500ms"
max_staleness = "3s"

[plugins]
enabled = ["sidecar-gates-http"]

[policy.default]
flags = "file"
gates = "http"

[flags.file]
plugin = "file"
path = "{shared}/flags.json"
poll_seconds = 0.5

[gates.http]
plugin = "http"
url = "{gates}"
"""
OPERATORS: Final = SETTINGS[SETTINGS.index("[operators]") :]
TLS: Final = """
[tls]
ca_file = "{folder}/server/ca.pem"
certificate_file = "{folder}/server/tls.crt"
key_file = "{folder}/server/tls.key"

[tls.listeners]
dispatch = "127.0.0.1:0"

[tls.peers.assistant]
identities = ["{agent}"]
may = ["dispatch"]
"""
FLAGS: Final = f"""
{{"flags": {{"ai_assistant_subagent_{REPLACEMENT}": true, "ai_assistant_subagent_{REPLACEMENT}_cohort": true}}}}
"""


@dataclass(slots=True)
class Replica:
    """One sidecar, which can be killed and started again under the same addresses.

    Attributes:
        shared: the folder with the definitions.
    """

    folder: Path
    shared: Path
    dsn: str
    more: str
    environment: Mapping[str, str]
    ops_address: str
    process: SidecarProcess | None = None
    _open: AbstractAsyncContextManager[SidecarProcess] | None = None

    async def start(self) -> None:
        """Start it, and wait until it takes turns."""
        more = settings_of(self.folder, self.shared, self.dsn, lease="5s")
        more += OPERATORS.format(folder=self.folder) + self.more
        environment = {
            "SIDECAR__SERVER__OPS_ADDRESS": self.ops_address,
            "SIDECAR__DEFINITIONS__PATH": str(self.shared / "config"),
        }
        self._open = started(self.folder, more=more, environment={**environment, **self.environment})
        self.process = await self._open.__aenter__()
        await self.process.event("sidecar.readiness")

    async def kill(self) -> None:
        """End it with SIGKILL."""
        if self._open is not None:
            await self._open.__aexit__(None, None, None)
            self._open = None

    @property
    def operators(self) -> str:
        """Its operator listener."""
        return f"unix:{self.folder}/o/s.sock"


@dataclass(slots=True)
class Stage:
    """Everything that runs.

    Attributes:
        first, second: the replicas. The first has a TLS listener and its checkpoints on a small disk; the clock of the
            second can be set.
        asks: sub-agents that each turn calls.
        leaves: whether the consumer-agents leave their turns open.
        sessions: of PostgreSQL, opened by hand.
        hosts: runner hosts that serve, by slot.
    """

    folder: Path
    first: Replica
    second: Replica
    operator: Operator
    postgres: PostgresServer
    database: str
    ccs: RunningCcs
    authority: Authority
    disk: Disk
    clock: FakedTime
    prometheus: Server
    console: Visitor
    asks: tuple[str, ...] = CALLS
    leaves: bool = False
    sessions: list[asyncio.subprocess.Process] = field(default_factory=list)
    hosts: dict[str, AsyncExitStack] = field(default_factory=dict)

    async def command(self, *typed: str) -> str:
        """Run `sidecar` as an operator does, at the first replica; return what it prints."""
        token = self.folder / "token"
        token.write_text(self.operator.role_token(), encoding="utf-8")
        token.chmod(0o600)
        config = ("--config", str(self.first.folder / "sidecar.toml"), "--token-file", str(token))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sidecar", *typed, *config),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=ROOT,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()
        return said.decode()

    async def host(self, slot: str) -> None:
        """Serve a sub-agent."""
        opened = self.hosts[slot] = AsyncExitStack()
        host = RunnerHost()
        host.sub_agent(slot)(_work)
        await opened.enter_async_context(host.serving(f"unix:{self.folder}/{slot}.sock"))

    async def end_host(self, slot: str) -> None:
        """End the host of a sub-agent."""
        await self.hosts.pop(slot).aclose()

    def certificate(self, *life: timedelta) -> None:
        """Give the first replica another certificate; without `life` a good one."""
        issued = self.authority.issue(*LOCAL, life=(life[0], life[1])) if life else self.authority.issue(*LOCAL)
        issued.written(self.folder / "server")

    async def traffic(self, replica: Replica) -> None:
        """Have one turn after the other, as a consumer-agent does."""
        number = 0
        while True:
            number += 1
            with suppress(SubagentsError):
                await self._turns(replica, number)
            await pause(PACE)

    async def _turns(self, replica: Replica, number: int) -> None:
        assert replica.process is not None
        async with replica.process.client(PATIENT) as client:
            while True:
                number += 1
                user = f"user-{number % 50}"
                turn = await client.bind_turn(TurnRequest(principal=user, episode_id=f"episode-{user}"))
                tools = {tool.name for tool in turn.surface.sub_agent_tools}
                asked = [each for each in self.asks if f"ask_{each}" in tools]
                calls = [ToolCall(each, f"ask_{each}", '{"request": "shoes"}') for each in asked]
                await turn.dispatch_and_wait(calls)
                if not self.leaves:
                    await turn.end("There.")
                await pause(PACE)


async def _work(run: Run) -> Any:
    """Answer; the new definition of shop fails, and support asks for the orders of the user."""
    if run.definition_id == REPLACEMENT:
        raise RuntimeError("the new prompt makes a wrong call")
    if run.sub_agent_id == "support":
        data = await run.call_tool("order_status", {})
        if isinstance(data, DataUnavailable):
            return Answer("Your orders cannot be read now.", data_unavailable=True)
    return f"{run.sub_agent_id} answers."


@asynccontextmanager
async def a_stage(postgres: PostgresServer, *, whole: bool) -> AsyncIterator[Stage]:
    """Start everything, and end it; unless `whole` without the second replica, whose clock costs as much as it does."""
    prometheus = needs_tool("prometheus")
    async with AsyncExitStack() as opened:
        folder = opened.enter_context(place())
        other = opened.enter_context(place())
        disk = opened.enter_context(small_disk(folder / "checkpoints"))
        gates, service = ReferenceGates(), ReferenceCcs()
        gates_address = await opened.enter_async_context(http_serving(gates.app(), gates.switches.clear))
        ccs_address = await opened.enter_async_context(http_serving(service.app(), service.faults.clear))
        ccs = RunningCcs(ccs_address, service)
        operator = _files(folder, other, ccs)
        database = postgres.new_database()
        opened.callback(postgres.sql, f"drop database {database} with (force)")
        clock, authority = FakedTime(other), Authority()
        authority.issue(*LOCAL).written(folder / "server")
        more = MORE.format(shared=folder, gates=gates_address)
        tls = TLS.format(folder=folder, agent=AGENT)
        dsn = postgres.dsn(database)
        first = Replica(folder, folder, dsn, more + tls, {}, f"127.0.0.1:{await free_port()}")
        second = Replica(other, folder, dsn, more, clock.environment, f"127.0.0.1:{await free_port()}")
        replicas = (first, second) if whole else (first,)
        for replica in replicas:
            opened.push_async_callback(replica.kill)
            await replica.start()
        addresses = [each.ops_address for each in replicas]
        server = await opened.enter_async_context(scraping_all(prometheus, addresses, faster_rules(folder), folder))
        listeners = tuple(each.operators for each in replicas)
        console = await opened.enter_async_context(
            served(ConsoleOptions(listeners, f"127.0.0.1:{await free_port()}"), timeout=60)
        )
        await console.sign_in(operator.role_token())
        stage = Stage(folder, first, second, operator, postgres, database, ccs, authority, disk, clock, server, console)
        opened.push_async_callback(_end_hosts, stage)
        for slot in SLOTS:
            await stage.host(slot)
        tasks = [asyncio.ensure_future(stage.traffic(each)) for each in replicas]
        opened.callback(lambda: [task.cancel() for task in tasks])
        yield stage


async def _end_hosts(stage: Stage) -> None:
    for slot in list(stage.hosts):
        await stage.end_host(slot)


def _files(folder: Path, other: Path, ccs: RunningCcs) -> Operator:
    """Write what the replicas share into the first folder, and lead the other one there."""
    config = folder / "config" / "agent_config.yaml"
    text = config.read_text(encoding="utf-8").replace(CONFIGURED_ENDPOINT, f"endpoint: {ccs.endpoint}")
    config.write_text(text, encoding="utf-8")
    (folder / "flags.json").write_text(FLAGS, encoding="utf-8")
    signer = prepared(folder)
    config.write_text(text, encoding="utf-8")  # `prepared` gates an entry, which needs no flag here
    shutil.copy(folder / "operator.pub", other)
    for slot in SLOTS:
        (other / f"{slot}.sock").symlink_to(folder / f"{slot}.sock")
    return Operator(folder=folder, signer=signer)


def add_canary(folder: Path) -> None:
    """Ship a new definition of shop."""
    config = folder / "config" / "agent_config.yaml"
    fresh = config.with_suffix(".new")
    fresh.write_text(with_replacement(config.read_text(encoding="utf-8")), encoding="utf-8")
    fresh.rename(config)


LATE: Final = (-DAY, timedelta(seconds=20))
"""Life of a certificate that was not renewed."""
