"""Sets the stage: data service, gate service, four runner hosts and the sidecar, each a process of its own."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import grpc
import httpx
from grpc_health.v1 import health_pb2

from examples.demo.definitions import DATA_SOCKET
from examples.demo.evaluations import MANIFEST, configure, decisions_in
from examples.demo.host_users import HostUsers
from examples.demo.processes import Processes, Running, ready
from examples.demo.sidecar_settings import Neighbours, operator_socket, sidecar_toml
from examples.demo.typed_commands import answer_of

SLOTS: Final = ("shop", "rewards", "support")
"""Which can be broken."""
NEW_SLOT: Final = "travel"
ALL_SLOTS: Final = (*SLOTS, NEW_SLOT)
ASK_SECONDS: Final = 2.0
LONGEST_FOLDER: Final = 75
"""Bytes; the sidecar takes at most 100 for the path of a socket."""


@dataclass(frozen=True, slots=True)
class DemoEnvironment:
    """Where everything is.

    Attributes:
        folder: configuration, sockets and logs.
        data_service: URL of the data service.
        gate_log: what the gate service has decided.
        sidecar: target of the dispatch listener.
        boot_secret_file: what the sidecar wrote for its callers.
        ops: address of `/metrics`.
        processes: which run.
    """

    folder: Path
    data_service: str
    gate_log: Path
    sidecar: str
    boot_secret_file: Path
    ops: str
    processes: Processes

    def broken_file(self, slot: str) -> Path:
        """Return the file that makes a sub-agent raise, as long as it exists."""
        return broken_file(self.folder, slot)

    @property
    def held_file(self) -> Path:
        """The file that keeps travel from being done, as long as it exists."""
        return held_file(self.folder)

    @property
    def operators(self) -> str:
        """Target of the operator listener."""
        return f"unix:{operator_socket(self.folder)}"

    @property
    def operator_key(self) -> Path:
        """The private key of the demo's operator."""
        return operator_key(self.folder)

    @property
    def config(self) -> Path:
        """Definitions, prompts, cases, and the manifest that gates are decided by."""
        return self.folder / "config"


class Question(NamedTuple):
    """What a gate was asked about; ramps in basis points."""

    definition_id: str
    gate: str
    before: int
    after: int


class Progress(Protocol):
    """Who is told that things have started."""

    def started(self, what: str, address: str, running: Running, seconds: float) -> None:
        """A process is ready."""


@asynccontextmanager
async def started_environment(
    folder: Path, processes: Processes, pace: float, progress: Progress, users: HostUsers
) -> AsyncIterator[DemoEnvironment]:
    """Start everything in order and yield when it is all ready; `processes` stops it.

    Raises:
        StartFailed: a process ended or did not become ready.
        CommandFailed: there is no key for the operator.
        ValueError: the folder's path is too long for a socket in it.
    """
    if len(str(folder).encode()) > LONGEST_FOLDER:
        raise ValueError(f"{folder} is too long for the path of a Unix socket: give a shorter one with --folder")
    clock = time.monotonic
    begun = clock()
    configure(folder / "config")
    gate_service = await processes.start("gate-service", _gate_arguments(folder / "config" / MANIFEST.name))
    services = [
        ("data service", await processes.start("data-service", _data_arguments(folder))),
        ("gate service", gate_service),
    ]
    await answer_of(["token", "key", "--key", str(operator_key(folder))])
    addresses = []
    for what, running in services:
        addresses.append(await _told(running, lambda text: _json_lines(text, "address")))
        progress.started(what, addresses[-1], running, clock() - begun)
    data_service, gates = addresses

    set_up(folder, gates, users)
    begun = clock()
    hosts = {
        slot: await processes.start(f"host-{slot}", _host_arguments(folder, slot, pace, users)) for slot in ALL_SLOTS
    }
    for slot, running in hosts.items():
        await ready(running, _healthy(_host_target(folder, slot)))
        progress.started(f"sub-agent host: {slot}", _host_target(folder, slot), running, clock() - begun)

    begun = clock()
    sidecar = f"unix:{folder}/dispatch/sidecar.sock"
    serve = ["-m", "sidecar", "serve", "--config", str(folder / "sidecar.toml")]
    running = await processes.start("sidecar", serve, folder)  # the definitions name a socket in it
    await ready(running, _healthy(sidecar))
    ops = await _told(running, lambda text: _json_lines(text, "ops_address"))
    progress.started("the sidecar", sidecar, running, clock() - begun)
    yield DemoEnvironment(
        folder, data_service, gate_service.log, sidecar, folder / "dispatch" / "boot-secret", ops, processes
    )


def set_up(folder: Path, gates: str, users: HostUsers) -> None:
    """Write the sidecar's settings, and make the folders of the sub-agents."""
    targets = {slot: _host_target(folder, slot) for slot in ALL_SLOTS}
    neighbours = Neighbours(targets, gates, operator_key(folder).with_suffix(".pub"), users.of)
    (folder / "sidecar.toml").write_text(sidecar_toml(folder, neighbours), encoding="utf-8")
    users.prepare(folder)
    for slot in targets:
        (folder / slot / "hosts").mkdir(mode=0o700, parents=True, exist_ok=True)


def operator_key(folder: Path) -> Path:
    """Return the private key of the demo's operator."""
    return folder / "ada"


def held_file(folder: Path) -> Path:
    """Return the file that keeps travel from being done, as long as it exists."""
    return folder / NEW_SLOT / "held"


def broken_file(folder: Path, slot: str) -> Path:
    """Return the file that makes a sub-agent raise, as long as it exists."""
    return folder / slot / "broken"


def _host_target(folder: Path, slot: str) -> str:
    return f"unix:{folder}/{slot}/hosts/host.sock"


def _host_arguments(folder: Path, slot: str, pace: float, users: HostUsers) -> list[str]:
    defect = ["--broken-while", str(broken_file(folder, slot))]
    held = ["--held-while", str(held_file(folder))]
    start = ["-m", "examples.verticals", slot, "--listen", _host_target(folder, slot)]
    user = ["--user", str(users.of[slot])] if users.of else []
    return [*start, "--pace", str(pace), *defect, *held, *user]


def _data_arguments(folder: Path) -> list[str]:
    return ["-m", "examples.ccs", "--port", "0", "--grpc", f"unix:{folder / DATA_SOCKET}"]


def _gate_arguments(manifest: Path) -> list[str]:
    return ["-m", "sidecar_gates_manifest", str(manifest), "--accept-offline", "--log"]


def _healthy(target: str) -> Callable[[], Awaitable[bool]]:
    """Return a question to a gRPC server: are you ready?"""

    async def ask() -> bool:
        async with grpc.aio.insecure_channel(target) as channel:
            with suppress(grpc.aio.AioRpcError):
                check = channel.unary_unary(
                    "/grpc.health.v1.Health/Check",
                    request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                    response_deserializer=health_pb2.HealthCheckResponse.FromString,
                )
                answer = await check(health_pb2.HealthCheckRequest(), timeout=ASK_SECONDS)
                return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
        return False

    return ask


async def _told(running: Running, find: Callable[[str], str]) -> str:
    """Wait until a process has said something in its log, and return that."""

    async def said() -> bool:
        return bool(find(running.log.read_text(encoding="utf-8", errors="replace")))

    await ready(running, said)
    return find(await asyncio.to_thread(running.log.read_text, encoding="utf-8", errors="replace"))


def _json_lines(text: str, key: str) -> str:
    """Return the text that the first JSON line with that key has there; empty if none has."""
    for line in text.splitlines():
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, Mapping) and isinstance(found.get(key), str):
                return str(found[key])
    return ""


async def set_fault(stage: DemoEnvironment, fault: Mapping[str, object]) -> None:
    """Set a switch of the data service."""
    async with _plain_client() as client:
        (await client.post(f"{stage.data_service}/admin/faults", json=dict(fault))).raise_for_status()


async def clear_faults(stage: DemoEnvironment) -> None:
    """Clear every switch of the data service."""
    async with _plain_client() as client:
        (await client.delete(f"{stage.data_service}/admin/faults")).raise_for_status()


async def faulty_answers(stage: DemoEnvironment, kind: str) -> int:
    """Return how many requests the data service answered with that fault."""
    async with _plain_client() as client:
        calls = (await client.get(f"{stage.data_service}/admin/calls")).raise_for_status().json()
    return sum(call["fault"] == kind for call in calls)


async def gate_questions(stage: DemoEnvironment) -> Sequence[Question]:
    """Return what the gate service was asked, oldest first."""
    log = await asyncio.to_thread(stage.gate_log.read_text, encoding="utf-8")
    asked = [one["question"] for one in decisions_in(log)]
    return [Question(each["definition_id"], each["gate"], each["from_ramp"], each["to_ramp"]) for each in asked]


async def metric(stage: DemoEnvironment, name: str) -> str:
    """Return the line of `/metrics` that begins with `name`; empty if there is none."""
    async with _plain_client() as client:
        page = (await client.get(f"http://{stage.ops}/metrics")).raise_for_status().text
    return next((line for line in page.splitlines() if line.startswith(name)), "")


def _plain_client() -> httpx.AsyncClient:
    """Return a client for the loopback; there is no TLS, and to read the certificates for it would take 20 ms."""
    return httpx.AsyncClient(trust_env=False, verify=False)  # noqa: S501  nothing here is https
