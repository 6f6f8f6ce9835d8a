"""Data service, runner host and sidecar as processes, and a search through everything that they emit.

The sidecar's code may come from another folder: that is how a test shows what it would find if a check were missing.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import msgspec
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc

from examples.ccs.faults import Fault
from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from subagents.dispatch.v1 import dispatch_pb2_grpc
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.plain_http import plain_client

ROOT: Final = Path(__file__).parents[2]
SLOTS: Final = ("shop", "rewards", "support")
START_SECONDS: Final = 180
STOP_SECONDS: Final = 120
CONFIGURED_ENDPOINT: Final = "http://127.0.0.1:8480"
SETTINGS: Final = """
[server]
dispatch_socket = "{folder}/d/s.sock"
agents_socket = "{folder}/a/s.sock"
boot_secret_file = "{folder}/d/secret"
ops_address = "127.0.0.1:0"
lame_duck = "0s"

[record.sqlite]
path = "{folder}/record/record.sqlite"

[definitions]
path = "{folder}/config"
git_commits = false

[dispatch]
fan_out_cap = 3

[rollout]
auto_promote_unflagged = true

[status.events.searching_offers]
policy = "forward"

[targets.slots]
shop = "unix:{folder}/host.sock"
rewards = "unix:{folder}/host.sock"
support = "unix:{folder}/host.sock"

[telemetry]
grpc_spans = true
trace_ratio = 1.0
error_emit = true
otlp_endpoint = "{collector}"
otlp_interval = "100ms"
otlp_metrics_interval = "500ms"

[log]
format = "json"
level = "debug"
"""


@dataclass(slots=True)
class Emitting:
    """The running processes and what came out of them.

    Attributes:
        data_service: its URL.
        collector: receives what the sidecar sends over OTLP.
        told: what the client was told, by a name for each place, as the bytes on the wire.
    """

    folder: Path
    data_service: str
    channel: grpc.aio.Channel
    collector: OtlpReceiver
    ops_address: str = ""
    told: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def stub(self) -> dispatch_pb2_grpc.DispatchServiceStub:
        """The consumer-agent's stub."""
        return dispatch_pb2_grpc.DispatchServiceStub(self.channel)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What a call needs to be let in."""
        return ((BOOT_SECRET_KEY, (self.folder / "d" / "secret").read_text(encoding="utf-8").strip()),)

    def keep(self, place: str, message: Message) -> None:
        """Take note of something the client was told."""
        self.told.append((place, message.SerializeToString()))

    async def keep_pages(self) -> None:
        """Take note of the pages that operators read."""
        async with plain_client() as client:
            for name, accept in (("metrics", "text/plain"), ("openmetrics", "application/openmetrics-text")):
                page = await client.get(f"http://{self.ops_address}/metrics", headers={"accept": accept})
                self.told.append((name, page.content))
            for path in ("/readyz", "/healthz"):
                self.told.append((path, (await client.get(f"http://{self.ops_address}{path}")).content))

    async def answer_with(self, faults: Iterable[Fault]) -> None:
        """Set the data service's switches: these and no others."""
        async with plain_client() as client:
            (await client.delete(f"{self.data_service}/admin/faults")).raise_for_status()
            for fault in faults:
                body = msgspec.json.encode(fault)
                (await client.post(f"{self.data_service}/admin/faults", content=body)).raise_for_status()

    async def metric(self, beginning: str) -> float:
        """Return the value of the sample whose line begins so."""
        async with plain_client() as client:
            lines = (await client.get(f"http://{self.ops_address}/metrics")).text.splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(beginning))

    def recorded(self) -> list[dict[str, Any]]:
        """Return what the sub-agents were given, in order."""
        text = (self.folder / "host.record").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


def places_of(emitted: Iterable[tuple[str, bytes]], canaries: Iterable[str]) -> Mapping[str, set[str]]:
    """Return where each canary was found; one that was found nowhere has no entry."""
    kept = list(emitted)
    found = {canary: {place for place, content in kept if canary.encode() in content} for canary in canaries}
    return {canary: places for canary, places in found.items() if places}


def written_below(folder: Path) -> list[tuple[str, bytes]]:
    """Return every file that the processes wrote: output of each, the host's record, whatever else there is."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return [(str(file.relative_to(folder)), file.read_bytes()) for file in files]


@asynccontextmanager
async def emitting_processes(code: Path = ROOT) -> AsyncIterator[Emitting]:
    """Run all three; `code` is the folder whose `sidecar` is run. Outputs are whole once this has ended."""
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="em"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        ccs = await _started(stack, folder, "ccs", ROOT, "examples.ccs", "--port", "0")
        address = (await ccs.said("address"))["address"]
        collector = await stack.enter_async_context(otlp_receiver())
        _configure(folder, address, collector.endpoint)
        record = ("--listen", f"unix:{folder}/host.sock", "--record", f"{folder}/host.record")
        host = await _started(stack, folder, "host", ROOT, "tests.support.recording_host", *record)
        await _healthy(f"unix:{folder}/host.sock")
        sidecar = await _started(
            stack, folder, "sidecar", code, "sidecar", "serve", "--config", f"{folder}/sidecar.toml"
        )
        listening = await sidecar.said("ops_address")
        await _healthy(f"unix:{folder}/d/s.sock")
        async with grpc.aio.insecure_channel(f"unix:{folder}/d/s.sock") as channel:
            emitting = Emitting(folder, address, channel, collector, listening["ops_address"])
            yield emitting
        for process in (sidecar, host, ccs):
            await process.stop()
        emitting.told += written_below(folder)
        emitting.told += [(f"collector.{signal}", content) for signal, content in collector.raw]


def _configure(folder: Path, address: str, collector: str) -> None:
    shutil.copytree(ROOT / "examples" / "config", folder / "config")
    file = folder / "config" / "agent_config.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace(CONFIGURED_ENDPOINT, address), encoding="utf-8")
    (folder / "sidecar.toml").write_text(SETTINGS.format(folder=folder, collector=collector), encoding="utf-8")


class _Process:
    """A started process; all it says goes into a file, line by line, and whoever waits for a line is woken."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log
        self._lines: list[str] = []
        self._news = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        with self._log.open("ab", buffering=0) as file:
            async for raw in self.process.stdout:
                file.write(raw)
                async with self._news:
                    self._lines.append(raw.decode(errors="replace"))
                    self._news.notify_all()
        async with self._news:
            self._news.notify_all()

    async def said(self, key: str) -> dict[str, Any]:
        """Wait for a JSON line that has a key, and return it."""
        async with asyncio.timeout(START_SECONDS), self._news:
            while True:
                for line in self._lines:
                    if line.startswith("{") and key in (found := json.loads(line)):
                        return dict(found)
                assert not self._reading.done(), f"it ended early:\n{''.join(self._lines)}"
                await self._news.wait()

    async def stop(self) -> None:
        """Ask it to end, and kill it if it does not."""
        if self.process.returncode is None:
            self.process.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
        await self.process.wait()
        await self._reading


async def _started(stack: AsyncExitStack, folder: Path, name: str, code: Path, *module: str) -> _Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *module),
        cwd=code,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join((str(code), str(ROOT)))},
        limit=4 * 1024 * 1024,
    )
    running = _Process(process, folder / f"{name}.log")
    stack.push_async_callback(running.stop)
    return running


async def _healthy(target: str) -> None:
    """Wait until a server serves; gRPC itself waits for the socket, and health tells of every change."""
    async with asyncio.timeout(START_SECONDS), grpc.aio.insecure_channel(target) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # `Watch` is younger than the stubs
        watch = stub.Watch(health_pb2.HealthCheckRequest(), wait_for_ready=True)
        async for answer in watch:
            if answer.status == health_pb2.HealthCheckResponse.SERVING:
                return
