"""Certificates and authorities are replaced under a running sidecar, and no call notices. Reliability row 60."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from sidecar.composition.parts import Overrides
from sidecar.composition.running import running_sidecar
from sidecar.observability import names
from sidecar.observability.metrics import Counter
from sidecar.settings import read_settings
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc, outcome_pb2
from subagents_client.runner import Run, RunnerHost
from subagents_tls.channels import RotatingChannel
from subagents_tls.files import WatchedFiles
from tests.support.authority import AGENT, DAY, LOCAL, Authority, Issued
from tests.support.requests import a_bind, some_calls
from tests.support.sidecar_process import next_look, place, settings_file
from tests.support.tls_sidecar import TlsSidecar, a_tls_sidecar


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a sidecar keeps its files."""
    with place() as made:
        yield made


@asynccontextmanager
async def a_slow_shop(folder: Path) -> AsyncIterator[tuple[asyncio.Event, asyncio.Event]]:
    """Serve the sub-agent `shop`; gives what tells that it runs, and what lets it answer."""
    runs, may_answer = asyncio.Event(), asyncio.Event()
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        runs.set()
        await may_answer.wait()
        return "an answer"

    async with host.serving(f"unix:{folder}/shop.sock"):
        yield runs, may_answer


async def until_served(served: TlsSidecar, issued: Issued) -> None:
    """Return once handshakes use a certificate: files are looked at once a second."""
    host, _, port = served.address("dispatch").rpartition(":")
    wanted = ssl.PEM_cert_to_DER_cert(issued.certificate.decode())
    async with asyncio.timeout(20):
        while True:
            shown = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
            if ssl.PEM_cert_to_DER_cert(shown) == wanted:
                return
            await next_look()


async def bind(channel: grpc.aio.Channel, turn_id: str) -> pb.BindTurnResponse:
    """Bind a turn."""
    stub: Any = dispatch_pb2_grpc.DispatchServiceStub(channel)
    answer: pb.BindTurnResponse = await stub.BindTurn(a_bind(turn_id=turn_id), timeout=10)
    return answer


def bundle(*authorities: Authority) -> bytes:
    """Return several authorities as one file."""
    return b"".join(each.pem for each in authorities)


async def test_authority_and_certificates_rotate_under_a_call_in_flight(folder: Path) -> None:
    """Both ends trust both authorities, then both get certificates of the new one, then the old one goes.

    The call that began before the first step ends well after the last; the channel that made it makes the next one
    with the new certificate; the old certificate gets in no more.
    """
    old, new = Authority("old"), Authority("new")
    before = old.issue(AGENT)
    async with a_tls_sidecar(folder, authority=old) as served, a_slow_shop(folder) as (runs, may_answer):
        mine = WatchedFiles(before.written(folder / "client"))
        async with RotatingChannel(served.address("dispatch"), mine) as channel:
            stub: Any = dispatch_pb2_grpc.DispatchServiceStub(channel)
            bound = await stub.BindTurn(a_bind(turn_id="t-1"), timeout=10)
            request = pb.DispatchRequest(
                surface_token=bound.surface_token,
                binding_digest=bound.surface.binding_digest,
                dispatch_id="d-1",
                calls=some_calls("ask_shop"),
            )
            stream = stub.Dispatch(request, timeout=60)
            async with asyncio.timeout(20):
                await runs.wait()
            server = [old.issue(*LOCAL), new.issue(*LOCAL), new.issue(*LOCAL)]
            for step, trusted in zip(server, (bundle(old, new), bundle(old, new), bundle(new)), strict=True):
                Issued(trusted, step.certificate, step.key).written(folder / "server")
                client = before if step is server[0] else new.issue(AGENT)
                Issued(bundle(old, new), client.certificate, client.key).written(folder / "client")
                await until_served(served, step)
            await until_used(mine)
            assert (await stub.BindTurn(a_bind(turn_id="t-2"), timeout=10)).surface_token
            may_answer.set()
            frames = [message.frame async for message in stream]
            assert [each.outcome for each in frames[-1].result.outcomes] == [outcome_pb2.OUTCOME_SUCCEEDED]
        stale = await served.channel("dispatch", Issued(bundle(old, new), before.certificate, before.key))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await bind(stale, "t-3")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def until_used(watched: WatchedFiles) -> None:
    """Return once the files as they are now are in use."""
    wanted = watched.files.all[1].read_bytes()
    async with asyncio.timeout(20):
        while watched.current().certificate != wanted:
            await next_look()


def problem_of(served: TlsSidecar, section: str) -> str:
    """Return what the page of readiness says of certificates, by the section of the settings that names them."""
    problem: str = served.sidecar.readiness.detail()["tls"]["certificates"][section]["problem"]
    return problem


async def test_files_that_do_not_fit_change_nothing_and_are_told(folder: Path) -> None:
    """A new certificate with another key: the former pair is served, and the page of readiness says why."""
    async with a_tls_sidecar(folder) as served:
        good = (folder / "server" / "tls.crt").read_bytes()
        torn = served.authority.issue(*LOCAL)
        Issued(torn.authority, torn.certificate, served.authority.issue(*LOCAL).key).written(folder / "server")
        async with asyncio.timeout(20):
            while not problem_of(served, "tls"):
                await next_look()
        assert "does not fit the key" in problem_of(served, "tls")
        await until_served(served, Issued(b"", good, b""))
        channel = await served.channel("dispatch", served.authority.issue(AGENT))
        assert (await bind(channel, "t-1")).surface_token


OUTGOING = """
[runners.grpc]
plugin = "grpc"
ca_file = "{folder}/runner/ca.pem"
client_certificate_file = "{folder}/runner/tls.crt"
client_key_file = "{folder}/runner/tls.key"

[connectors.rest]
plugin = "rest"
ca_file = "{folder}/service/ca.pem"
"""


def anomalies(served: TlsSidecar, kind: str) -> float:
    """Return how often an anomaly has been counted."""
    counter = next(each for each in served.sidecar.metrics if each.name == names.ANOMALIES)
    assert isinstance(counter, Counter)
    return counter.series.get((kind,), 0)


async def test_certificates_of_outgoing_connections_are_told_when_they_are_missing_or_have_expired(
    folder: Path,
) -> None:
    """The runner and the connectors go on with the former ones; without a word the operator would learn of it late."""
    authority = Authority()
    authority.issue("sidecar.example").written(folder / "runner")
    async with a_tls_sidecar(folder, OUTGOING.format(folder=folder), authority) as served:
        assert "service/ca.pem cannot be read: No such file" in problem_of(served, "connectors.rest")
        authority.issue("sidecar.example").written(folder / "service")
        assert (problem_of(served, "connectors.rest"), problem_of(served, "runners.grpc")) == ("", "")

        (folder / "runner" / "tls.crt").unlink()
        async with asyncio.timeout(20):
            while "tls.crt cannot be read: No such file" not in problem_of(served, "runners.grpc"):
                await next_look()
        authority.issue("sidecar.example", life=(-2 * DAY, -DAY)).written(folder / "runner")
        async with asyncio.timeout(20):
            while "tls.crt has expired" not in problem_of(served, "runners.grpc"):
                await next_look()
        authority.issue("sidecar.example").written(folder / "runner")
        async with asyncio.timeout(20):
            while problem_of(served, "runners.grpc"):
                await next_look()
        await next_look()
        assert anomalies(served, "tls_files_unusable") == 3


async def test_a_sidecar_that_listens_on_sockets_only_follows_its_client_certificates_too(folder: Path) -> None:
    """Nothing else would say that the certificate for a runner host has expired."""
    authority = Authority()
    authority.issue("sidecar.example", life=(-2 * DAY, -DAY)).written(folder / "runner")
    authority.issue("sidecar.example").written(folder / "service")
    settings = read_settings(settings_file(folder, OUTGOING.format(folder=folder)), {})
    async with running_sidecar(settings, replaced=Overrides()) as sidecar:
        shown = sidecar.readiness.detail()["tls"]
    assert (shown["addresses"], shown["certificates"]["connectors.rest"]["problem"]) == ({}, "")
    assert "tls.crt has expired" in shown["certificates"]["runners.grpc"]["problem"]
