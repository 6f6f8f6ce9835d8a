"""A runner host over mutual TLS: every method of its server asks the list of callers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from grpc_health.v1 import health_pb2

from subagents.runner.v1 import runner_pb2
from subagents_client.channels import open_channel
from subagents_client.runner import HostTls, RunnerHost
from tests.support.authority import DAY, HOST, Authority
from tests.support.requests import failure_from
from tests.support.sidecar_process import next_look

LISTED: Final = "sidecar.tests.example"
HEALTH: Final = "/grpc.health.v1.Health/"
RUNNER: Final = "/subagents.runner.v1.SubAgentRunnerService/"
ALONE: Final = (("grpc.use_local_subchannel_pool", 1),)
METHODS: Final[Mapping[str, bytes]] = {
    f"{HEALTH}Check": health_pb2.HealthCheckRequest().SerializeToString(),
    f"{HEALTH}Watch": health_pb2.HealthCheckRequest().SerializeToString(),
    f"{HEALTH}List": b"",
    f"{RUNNER}Describe": runner_pb2.DescribeRequest().SerializeToString(),
    f"{RUNNER}Run": runner_pb2.RunRequest(sub_agent_id="shop").SerializeToString(),
}


@asynccontextmanager
async def a_host(folder: Path, caller: str) -> AsyncIterator[grpc.aio.Channel]:
    """Serve a host that lists one caller; give a channel to it with the certificate of `caller`."""
    authority = Authority()
    files = authority.issue(HOST, "localhost").written(folder)
    host = RunnerHost(tls=HostTls(files=files, callers=[LISTED]))
    async with host.serving("127.0.0.1:0") as address:
        target = address.replace("127.0.0.1", "localhost")
        async with grpc.aio.secure_channel(target, authority.issue(caller).channel_credentials()) as channel:
            yield channel


async def first_answer(channel: grpc.aio.Channel, method: str) -> bytes:
    """Call a method, which may stream its answers, and return the first one. Raises `AioRpcError`."""
    start: Any = channel.unary_stream(method)
    call = start(METHODS[method], timeout=10)
    try:
        answer: bytes = await call.read()
        return answer
    finally:
        call.cancel()


@pytest.mark.parametrize("method", METHODS)
async def test_every_method_of_a_host_refuses_a_caller_that_is_not_listed(tmp_path: Path, method: str) -> None:
    """Its certificate is of the same authority. Health, too, would tell it which host serves and when it stops."""
    async with a_host(tmp_path, "stranger.example") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await first_answer(channel, method)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert failure_from(refused.value).reason == "CALLER_NOT_ALLOWED"


@pytest.mark.parametrize("method", ["Check", "Watch"])
async def test_a_listed_caller_is_told_the_health_of_a_host(tmp_path: Path, method: str) -> None:
    """The sidecar may ask."""
    async with a_host(tmp_path, LISTED) as channel, asyncio.timeout(10):
        answer = await first_answer(channel, HEALTH + method)
    status = health_pb2.HealthCheckResponse.FromString(answer).status
    assert status == health_pb2.HealthCheckResponse.SERVING


async def test_a_listed_caller_learns_that_list_does_not_exist(tmp_path: Path) -> None:
    """The asyncio servicer of gRPC has none; without an answer of its own it would fail with a traceback in the log."""
    async with a_host(tmp_path, LISTED) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await first_answer(channel, f"{HEALTH}List")
    assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_host_and_a_client_log_certificates_that_they_cannot_read_any_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Calls succeed with the former certificates, so the log is the only place where it can be seen in time."""
    authority = Authority()
    mine = authority.issue(LISTED).written(tmp_path / "client")
    theirs = authority.issue(HOST, "localhost").written(tmp_path / "host")
    assert mine.certificate_file is not None
    assert theirs.certificate_file is not None
    async with RunnerHost(tls=HostTls(files=theirs, callers=[LISTED])).serving("127.0.0.1:0") as address:
        target = address.replace("127.0.0.1", "localhost")
        client = open_channel(target, mine)
        await first_answer(client, f"{HEALTH}Check")
        mine.certificate_file.unlink()
        theirs.certificate_file.unlink()
        async with asyncio.timeout(20):
            while len(caplog.messages) < 2:
                await next_look()
                await first_answer(client, f"{HEALTH}Check")
                async with grpc.aio.secure_channel(
                    target, authority.issue(LISTED).channel_credentials(), options=ALONE
                ) as another:  # a handshake, at which the host looks at its files
                    await first_answer(another, f"{HEALTH}Check")
        await client.close()
    assert sorted(caplog.messages) == [
        f"certificates: {each} cannot be read: No such file or directory; the former certificates stay in use"
        for each in (mine.certificate_file, theirs.certificate_file)
    ]


async def test_a_client_logs_that_its_certificate_has_expired(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The other end only closes the connection."""
    files = Authority().issue(LISTED, life=(-2 * DAY, -DAY)).written(tmp_path)
    await open_channel("localhost:1", files).close()
    assert [each for each in caplog.messages if f"{files.certificate_file} has expired" in each] == caplog.messages
    assert len(caplog.messages) == 1
