"""What a runner host does with functions that misbehave, with too many of them, and when it is told to stop."""

import asyncio
import os
import signal
import socket
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from clients.python.tests.support.sidecar_side import Hosted, hosted, request, said
from subagents_client.errors import error_and_origin, error_from
from subagents_client.runner import HostLimits, Run, RunnerHost, TransientFailure
from subagents_errors import (
    DeadlineExceeded,
    DependencyUnavailable,
    Draining,
    InternalError,
    Overloaded,
    SubagentsError,
)


async def refusal(here: Hosted, sub_agent_id: str = "shop", timeout: float = 10) -> tuple[SubagentsError, str]:
    """Run an attempt that fails, and return how, with everything that was said about it."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await here.run(request(sub_agent_id), timeout)
    trailer = b"".join(
        value if isinstance(value, bytes) else value.encode() for _, value in failed.value.trailing_metadata() or ()
    )
    return error_and_origin(failed.value, "Run")[0], f"{failed.value.details()} {trailer!r}"


@pytest.mark.parametrize(
    "exception",
    [
        ValueError("secret=abc"),
        SystemExit("secret=abc"),
        KeyboardInterrupt("secret=abc"),
        BaseException("secret=abc"),
        RecursionError("secret=abc"),
        asyncio.CancelledError("secret=abc"),
        InternalError("secret=abc"),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_whatever_a_function_raises_fails_its_attempt_only(
    exception: BaseException, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The host lives, its next attempt succeeds, and the exception's text stays in the host's log."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        raise exception

    @host.sub_agent("rewards")
    async def rewards(run: Run) -> str:
        return "fine"

    async with hosted(host, tmp_path) as here:
        error, everything = await refusal(here)
        after = await here.run(request("rewards"))

    assert type(error) is InternalError
    assert "RUNNER_FAILED" in everything
    assert "secret" not in everything
    assert caplog.records
    assert said(after) == ["narration", "finished"]


async def test_a_transient_failure_says_that_another_attempt_may_succeed(tmp_path: Path) -> None:
    """UNAVAILABLE, which the sidecar retries if the card allows it."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        raise TransientFailure("secret=abc")

    async with hosted(host, tmp_path) as here:
        error, everything = await refusal(here)

    assert type(error) is DependencyUnavailable
    assert "secret" not in everything


async def test_cancelling_the_call_cancels_the_function(tmp_path: Path) -> None:
    """The function sees it and can put things in order."""
    host, begun, cancelled = RunnerHost(), asyncio.Event(), asyncio.Event()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    async with hosted(host, tmp_path) as here:
        call = here.stub.Run(request(), timeout=10)
        await begun.wait()
        call.cancel()
        await cancelled.wait()

    assert host.running == 0
    assert host.abandoned == 0


async def test_a_function_that_ignores_its_cancellation_is_abandoned_and_the_host_goes_on(tmp_path: Path) -> None:
    """Its time is up: the caller gets its status at once, and the next attempt runs."""
    host, release, ended = RunnerHost(), asyncio.Event(), asyncio.Event()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return ""

    @host.sub_agent("rewards")
    async def rewards(run: Run) -> str:
        return "fine"

    async with hosted(host, tmp_path) as here:
        message = request()
        message.timeout.FromMilliseconds(50)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await here.run(message)
        abandoned = host.abandoned
        after = await here.run(request("rewards"))
        release.set()
        await ended.wait()

    assert isinstance(error_from(failed.value, "Run"), DeadlineExceeded)
    assert abandoned == 1
    assert said(after) == ["narration", "finished"]
    assert host.abandoned == 0


async def test_a_host_that_is_full_refuses_and_advises_when_to_come_back(tmp_path: Path) -> None:
    """One place, two attempts; once the first has ended there is room again."""
    host, begun, release = RunnerHost(limits=HostLimits(most_runs=1)), asyncio.Event(), asyncio.Event()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        begun.set()
        await release.wait()
        return ""

    async with hosted(host, tmp_path) as here:
        first = asyncio.ensure_future(here.run(request()))
        await begun.wait()
        error, _ = await refusal(here)
        release.set()
        await first
        again = await here.run(request())

    assert type(error) is Overloaded
    assert error.retry_after is not None
    assert said(again) == ["finished"]


async def test_a_slow_reader_makes_the_function_wait_instead_of_filling_memory(tmp_path: Path) -> None:
    """Reports wait for room; a function that reports without end holds only so many."""
    host, most = RunnerHost(), 0

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        nonlocal most
        for number in range(2_000):
            await run.status("still_working", number=str(number))
            most = max(most, len(run.outbox))
        return "done"

    async with hosted(host, tmp_path) as here:
        responses = await here.run(request())

    assert [one.status.attributes["number"] for one in responses[:-2]] == [str(number) for number in range(2_000)]
    assert most <= 64


async def test_a_drain_lets_the_running_attempt_end_and_refuses_new_ones(tmp_path: Path) -> None:
    """Health turns first; the attempt that runs is answered in full; then the host is gone."""
    host, begun, release, leave = RunnerHost(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        begun.set()
        await release.wait()
        return "the end"

    target = f"unix:{tmp_path / 'host.sock'}"

    async def serve() -> None:
        async with host.serving(target):
            await leave.wait()

    serving = asyncio.ensure_future(serve())
    async with grpc.aio.insecure_channel(target) as channel:
        here = Hosted.over(target, channel)
        first = asyncio.ensure_future(here.run(request()))
        await begun.wait()
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=10)
        statuses = [(await watch.read()).status]
        leave.set()
        statuses.append((await watch.read()).status)
        error, _ = await refusal(here)
        release.set()
        responses = await first
        watch.cancel()
        await serving

    assert statuses == [health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING]
    assert type(error) is Draining
    assert [one.narration for one in responses] == ["the end", ""]


async def test_a_drain_does_not_wait_longer_than_the_grace(tmp_path: Path) -> None:
    """A hung attempt is cut off."""
    host, begun = RunnerHost(limits=HostLimits(grace=timedelta(milliseconds=20))), asyncio.Event()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    async with grpc.aio.insecure_channel(f"unix:{tmp_path / 'host.sock'}") as channel:
        async with host.serving(f"unix:{tmp_path / 'host.sock'}") as target:
            first = asyncio.ensure_future(Hosted.over(target, channel).run(request()))
            await begun.wait()
        with pytest.raises(grpc.aio.AioRpcError):
            await first

    assert host.running == 0


async def test_serve_ends_on_a_stop_signal(tmp_path: Path) -> None:
    """SIGTERM to this very process: the host drains and returns."""
    host = RunnerHost()
    target = f"unix:{tmp_path / 'host.sock'}"
    serving = asyncio.ensure_future(host.serve(target))
    async with grpc.aio.insecure_channel(target) as channel:
        await channel.channel_ready()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    assert host.draining


async def test_a_socket_that_is_served_is_not_taken_over(tmp_path: Path) -> None:
    """The second host does not start; the first goes on."""
    host, second = RunnerHost(), RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        return "first"

    async with hosted(host, tmp_path) as here:
        with pytest.raises(OSError, match="another process"):
            async with second.serving(here.target):
                pass
        responses = await here.run(request())

    assert responses[0].narration == "first"


@pytest.mark.parametrize(
    ("target", "error"),
    [("0.0.0.0:0", ValueError), ("unix:/no/such/directory/host.sock", OSError)],
)
async def test_an_address_that_cannot_or_must_not_be_served_stops_the_start(
    target: str, error: type[Exception]
) -> None:
    """Beyond this machine nothing is encrypted."""
    with pytest.raises(error):
        async with RunnerHost().serving(target):
            pass


HOST: Final = """
import asyncio, sys
from subagents_client.runner import RunnerHost
asyncio.run(RunnerHost().serve(sys.argv[1]))
"""


async def start_of(target: str) -> tuple[int | None, list[str]]:
    """Start a host as a process; return its exit code and the lines on standard error."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", HOST, target, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    return process.returncode, errors.decode().splitlines()


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("10.0.0.1:8000", "10.0.0.1:8000 is beyond this machine"),
        ("unix:{folder}/no/x.sock", "{folder}/no is no directory: create it with `mkdir -p -m 0700 {folder}/no`"),
        ("unix:/proc/x.sock", "/proc"),
        ("unix:{folder}", "{folder} is there and is no socket"),
        ("unix:{folder}/" + 120 * "x", "is longer than 107 bytes"),
        ("127.0.0.1:99999", "127.0.0.1:99999 has no port from 0 to 65535"),
    ],
    ids=["remote", "no directory", "not permitted", "no socket", "too long", "no port"],
)
async def test_a_host_that_cannot_start_says_so_in_one_line(target: str, line: str, tmp_path: Path) -> None:
    """No traceback, and the exit code of wrong settings."""
    code, said = await start_of(target.format(folder=tmp_path))

    assert (code, len(said)) == (78, 1), said
    assert said[0].startswith("the runner host cannot start: ")
    assert line.format(folder=tmp_path) in said[0]


async def test_a_host_whose_address_is_in_use_says_so_in_one_line(tmp_path: Path) -> None:
    """A port that another program has, and a socket that another host has: exit code 69, as of the sidecar."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ported = await start_of(address)
    path = tmp_path / "host.sock"
    async with RunnerHost().serving(f"unix:{path}"):
        at_socket = await start_of(f"unix:{path}")

    text = (
        f"the runner host cannot start: {address} is in use by another process: stop that process, or use another port"
    )
    assert ported == (69, [text])
    text = f"the runner host cannot start: {path} is served by another process: stop that process, or use another path"
    assert at_socket == (69, [text])


async def test_a_port_on_loopback_can_be_served(tmp_path: Path) -> None:
    """Port 0: the address that was chosen is told."""
    async with RunnerHost().serving("127.0.0.1:0") as target, grpc.aio.insecure_channel(target) as channel:
        await channel.channel_ready()

    assert not target.endswith(":0")
