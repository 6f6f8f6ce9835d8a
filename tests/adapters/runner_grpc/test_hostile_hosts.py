"""Runner `grpc` against hosts that fail, lie or overdo it: each attempt ends with a clear failure of its own."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

from sidecar.adapters.runner_grpc.runner import GrpcRunner
from sidecar.adapters.runner_grpc.settings import GrpcRunnerSettings
from sidecar.policy.protocols import NarrationPart, RunFinished
from subagents.runner.v1 import runner_pb2
from tests.adapters.runner_grpc.wild_host import (
    a_run,
    events_and_error,
    hosting,
    refusing,
    saying,
    sending,
    trailer,
)


@pytest.mark.parametrize(
    ("code", "reason", "transient", "unreachable"),
    [
        (StatusCode.UNAVAILABLE, "", True, True),
        (StatusCode.UNAVAILABLE, "DRAINING", True, True),
        (StatusCode.UNAVAILABLE, "RUNNER_FAILED", True, False),
        (StatusCode.RESOURCE_EXHAUSTED, "", True, False),
        (StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", True, False),
        (StatusCode.INTERNAL, "RUNNER_FAILED", False, False),
        (StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", False, False),
        (StatusCode.UNKNOWN, "", False, False),
        (StatusCode.NOT_FOUND, "NOT_FOUND", False, False),
        (StatusCode.UNIMPLEMENTED, "", False, False),
        (StatusCode.CANCELLED, "", False, False),
    ],
)
async def test_a_status_says_whether_another_attempt_may_succeed(
    code: StatusCode, reason: str, transient: bool, unreachable: bool, tmp_path: Path
) -> None:
    """The whole table; only a host that is away or busy, or says that its failure is transient, is asked again."""
    async with hosting(refusing(code, "text", reason), tmp_path) as (host, runner):
        events, error = await events_and_error(runner, a_run())
        assert error is not None
        assert (error.transient, error.unreachable) == (transient, unreachable)
        assert code.name in error.detail
        assert events == []
        assert len(host.seen) == 1


async def test_a_host_that_breaks_off_was_reached(tmp_path: Path) -> None:
    """UNAVAILABLE after the first words: transient, and what was said is passed on."""
    async with hosting(refusing(StatusCode.UNAVAILABLE, first="so far"), tmp_path) as (_, runner):
        events, error = await events_and_error(runner, a_run())
        assert error is not None
        assert (error.transient, error.unreachable) == (True, False)
        assert events == [NarrationPart("so far")]


async def test_a_hosts_own_words_are_cut_and_cleaned(tmp_path: Path) -> None:
    """They end in a timeline that people read."""
    async with hosting(refusing(StatusCode.UNKNOWN, "\x1b[31m\n" + "x" * 3000), tmp_path) as (_, runner):
        _, error = await events_and_error(runner, a_run())
        assert error is not None
        assert len(error.detail) < 300
        assert error.detail.isprintable()


async def test_the_definition_is_sent_only_to_a_host_that_asks_for_it(tmp_path: Path) -> None:
    """First without; refused; then with it, as the same attempt."""

    async def serve(request: runner_pb2.RunRequest, context: Any) -> None:
        if not request.HasField("card"):
            await context.abort(StatusCode.FAILED_PRECONDITION, "?", trailing_metadata=trailer("DEFINITION_NOT_HELD"))
        await saying("with it")(request, context)

    async with hosting(serve, tmp_path) as (host, runner):
        events, error = await events_and_error(runner, a_run())
        assert (events, error) == ([NarrationPart("with it"), RunFinished()], None)
        first, second = host.seen
        assert (first.HasField("card"), second.HasField("card")) == (False, True)
        assert second.card.prompt_prefix == "You are a script."
        assert (first.attempt_id, first.attempt) == (second.attempt_id, second.attempt)


async def test_a_host_that_never_has_the_definition_fails_the_attempt(tmp_path: Path) -> None:
    """It is not asked a third time."""
    serve = refusing(StatusCode.FAILED_PRECONDITION, "", "DEFINITION_NOT_HELD")
    async with hosting(serve, tmp_path) as (host, runner):
        _, error = await events_and_error(runner, a_run())
        assert error is not None
        assert not error.transient
        assert len(host.seen) == 2


async def test_a_reason_of_somebody_elses_domain_is_not_ours(tmp_path: Path) -> None:
    """A proxy's error that happens to use our word."""

    async def serve(request: runner_pb2.RunRequest, context: Any) -> None:
        foreign = trailer("DEFINITION_NOT_HELD", "proxy.example")
        await context.abort(StatusCode.FAILED_PRECONDITION, "?", trailing_metadata=foreign)

    async with hosting(serve, tmp_path) as (host, runner):
        _, error = await events_and_error(runner, a_run())
        assert error is not None
        assert len(host.seen) == 1


async def test_a_message_over_the_limit_fails_the_attempt_clearly(tmp_path: Path) -> None:
    """5 MiB at once; asking again would bring the same."""
    async with hosting(saying("x" * 5 * 1024 * 1024), tmp_path) as (_, runner):
        events, error = await events_and_error(runner, a_run())
        assert events == []
        assert error is not None
        assert "too large" in error.detail
        assert (error.transient, error.unreachable) == (False, False)


@pytest.mark.parametrize("raw", [b"\x1a\x10abc", b"\x1a\x02\xff\xfe", b"\xff" * 20])
async def test_bytes_that_are_no_message_fail_the_attempt(raw: bytes, tmp_path: Path) -> None:
    """Truncated, bad UTF-8, garbage."""
    async with hosting(sending(raw), tmp_path) as (_, runner):
        _, error = await events_and_error(runner, a_run())
        assert error is not None
        assert error.detail == "the host sent bytes that are no RunResponse"


async def test_reports_of_a_newer_host_are_passed_over(tmp_path: Path) -> None:
    """An event of a kind that this version does not know, then the end."""
    finished = runner_pb2.RunResponse(finished=runner_pb2.RunFinished()).SerializeToString()
    async with hosting(sending(b"\xfa\x06\x03new", b"", finished), tmp_path) as (_, runner):
        assert await events_and_error(runner, a_run()) == ([RunFinished()], None)


async def test_a_flood_of_unknown_reports_is_ended(tmp_path: Path) -> None:
    """They would count nowhere else."""
    async with hosting(sending(*[b""] * 1100), tmp_path) as (_, runner):
        _, error = await events_and_error(runner, a_run())
        assert error is not None
        assert "unknown kinds" in error.detail


async def test_nothing_after_the_end_counts(tmp_path: Path) -> None:
    """The host goes on; the run is over and its call cancelled."""
    stopped = asyncio.Event()

    async def serve(request: runner_pb2.RunRequest, context: Any) -> None:
        await saying("the answer")(request, context)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with hosting(serve, tmp_path) as (_, runner):
        events, error = await events_and_error(runner, a_run())
        assert (events, error) == ([NarrationPart("the answer"), RunFinished()], None)
        await stopped.wait()


async def test_a_stream_that_just_ends_brings_no_finish(tmp_path: Path) -> None:
    """The sidecar makes a failure of that; the runner does not invent an end."""
    async with hosting(saying("half", finish=False), tmp_path) as (_, runner):
        assert await events_and_error(runner, a_run()) == ([NarrationPart("half")], None)


async def test_the_host_is_told_the_time_and_held_to_it(tmp_path: Path) -> None:
    """A deadline of its own on the RPC, so that a host that forgets the time is cut off."""
    left: list[float] = []

    async def serve(request: runner_pb2.RunRequest, context: Any) -> None:
        left.extend([context.time_remaining(), request.timeout.ToTimedelta().total_seconds()])
        await asyncio.Event().wait()

    async with hosting(serve, tmp_path) as (_, runner):
        _, error = await events_and_error(runner, a_run(seconds=0.25))
        assert error is not None
        assert "DEADLINE_EXCEEDED" in error.detail
        assert max(left) < 1, "gRPC rounds a deadline; without one of its own it would be that of the card"


@pytest.mark.parametrize(
    "target", ["dns:///shop.example:443", "shop.example:443", "10.0.0.7:50051", "xds:///shop", "ipv4:10.1.1.1:1", ""]
)
def test_a_host_beyond_this_machine_needs_a_word_from_the_operator(target: str) -> None:
    """Nothing would be encrypted."""
    with pytest.raises(ValueError, match=r"target|machine"):
        GrpcRunner(target, "")
    if target:
        assert GrpcRunner(target, "", GrpcRunnerSettings(allow_remote=True)).target == target


@pytest.mark.parametrize(
    "target", ["unix:/run/x.sock", "unix-abstract:x", "localhost:1", "127.0.0.1:1", "dns:///localhost:1", "[::1]:1"]
)
def test_a_host_on_this_machine_needs_none(target: str) -> None:
    """Unix sockets and loopback addresses."""
    assert GrpcRunner(target, "").target == target
