"""Who may call what, and with how much of everything (reliability rows 39 and 42)."""

from datetime import timedelta

import pytest
from grpc import StatusCode

from sidecar.rpc.authorisation import BOOT_SECRET_KEY, CALLERS_OF, GRANT_KEY
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.errors.v1 import error_reason_pb2
from subagents.tools.v1 import tools_pb2
from tests.rpc.raw_calls import CALL_TOOL, DISPATCH, DISPATCH_METHODS, raw, raw_failure
from tests.support.fake_runner import calls_tool, hangs
from tests.support.harness import SECRET, running_sidecar_for_tests
from tests.support.requests import a_bind, failure_of

BIND = a_bind().SerializeToString()


@pytest.mark.parametrize(
    "metadata",
    [
        [],
        [(BOOT_SECRET_KEY, "")],
        [(BOOT_SECRET_KEY, "wrong")],
        [(BOOT_SECRET_KEY, SECRET + "x")],
        [(BOOT_SECRET_KEY, SECRET), (BOOT_SECRET_KEY, SECRET)],
        [(BOOT_SECRET_KEY, "wrong"), (BOOT_SECRET_KEY, SECRET)],
        [(BOOT_SECRET_KEY, SECRET), (BOOT_SECRET_KEY, "wrong")],
    ],
    ids=["none", "empty", "wrong", "longer", "twice", "wrong then right", "right then wrong"],
)
async def test_the_boot_secret_must_come_exactly_once(metadata: list[tuple[str, str]]) -> None:
    """Every method; a map of the metadata would let one of two win."""
    async with running_sidecar_for_tests() as sidecar:
        for name in DISPATCH_METHODS:
            failure = await raw_failure(sidecar.channel, DISPATCH + name, BIND, metadata)
            assert (failure.code, failure.reason) == (StatusCode.UNAUTHENTICATED, "BOOT_SECRET_WRONG"), name
            assert SECRET not in failure.message


@pytest.mark.parametrize("given", [[], ["nonsense"], ["right", "right"], ["nonsense", "right"]])
async def test_the_grant_must_come_exactly_once(given: list[str]) -> None:
    """The grant of an attempt that runs, or something else in its place."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind()
        stream = sidecar.stub.Dispatch(sidecar.dispatch_request(bound, "ask_shop"), metadata=sidecar.metadata)
        await sidecar.runner.until_started("shop")
        grant = sidecar.runner.request_of("shop").grant
        metadata = [(GRANT_KEY, grant if each == "right" else each) for each in given]
        body = tools_pb2.CallToolRequest(tool_id="any").SerializeToString()
        failure = await raw_failure(sidecar.tools_channel, CALL_TOOL, body, metadata)
        assert (failure.code, failure.reason) == (StatusCode.UNAUTHENTICATED, "GRANT_INVALID")
        stream.cancel()


async def test_a_grant_is_worth_nothing_once_its_attempt_is_over() -> None:
    """The sub-agent keeps it and uses it after its answer."""
    async with running_sidecar_for_tests() as sidecar:
        await sidecar.dispatch(await sidecar.bind(), "ask_shop")
        grant = sidecar.runner.request_of("shop").grant
        failure = await failure_of(sidecar.call_tool(grant, "any", "{}"))
        assert (failure.code, failure.reason) == (StatusCode.PERMISSION_DENIED, "GRANT_SPENT")


async def test_a_tool_outside_the_contract_is_refused() -> None:
    """The card of `shop` has no tools at all, so the sub-agent fails by its own fault."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", calls_tool("get_balance"))
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")
        assert reply.outcomes == ["FAILED"]
        assert sidecar.connector.calls == []


async def test_each_listener_serves_its_own_callers_only() -> None:
    """Every row of the table on the other listener, and methods that the sidecar calls but does not serve."""
    async with running_sidecar_for_tests() as sidecar:
        for method in CALLERS_OF:
            if method.startswith(DISPATCH):
                failure = await raw_failure(sidecar.tools_channel, method, b"", sidecar.metadata)
                assert (failure.code, failure.reason) == (StatusCode.PERMISSION_DENIED, "WRONG_LISTENER"), method
        failure = await raw_failure(sidecar.channel, CALL_TOOL, b"", sidecar.metadata)
        assert failure.reason == "WRONG_LISTENER"
        run = "/subagents.runner.v1.SubAgentRunnerService/Run"
        failure = await raw_failure(sidecar.channel, run, b"", sidecar.metadata)
        assert failure.reason == "CALLER_NOT_ALLOWED"


async def test_a_method_that_nobody_declared_is_not_implemented() -> None:
    """No handler, no leak."""
    async with running_sidecar_for_tests() as sidecar:
        failure = await raw_failure(sidecar.channel, "/subagents.dispatch.v1.DispatchService/Chat", BIND)
        assert failure.code is StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_is_served_only_where_it_is_on(version: str) -> None:
    """Off by default; the refusal says nothing of what there is."""
    method = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    async with running_sidecar_for_tests() as sidecar:
        failure = await raw_failure(sidecar.channel, method, b"", sidecar.metadata)
        assert failure.code is StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("key", ["x-more", "x-more-bin"])
async def test_more_metadata_than_allowed_is_refused(key: str) -> None:
    """64 KiB; the connection and the next call are not harmed."""
    async with running_sidecar_for_tests() as sidecar:
        value = b"\xff" * 65_536 if key.endswith("-bin") else "x" * 65_536
        failure = await raw_failure(sidecar.channel, DISPATCH + "BindTurn", BIND, [*sidecar.metadata, (key, value)])
        assert failure.code is StatusCode.RESOURCE_EXHAUSTED
        assert (await sidecar.bind()).surface_token


async def test_garbage_in_binary_metadata_changes_nothing() -> None:
    """Keys that nobody reads."""
    async with running_sidecar_for_tests() as sidecar:
        garbage = (("grpc-trace-bin", b"\xff\x00\xfe"), ("grpc-status-details-bin", b"\x0a\x10"))
        answers = [each async for each in raw(sidecar.channel, DISPATCH + "BindTurn", BIND, sidecar.metadata + garbage)]
        assert pb.BindTurnResponse.FromString(answers[0]).surface_token


@pytest.mark.parametrize("seconds", [None, 366 * 86_400.0])
async def test_without_a_sensible_deadline_the_operators_limit_holds(seconds: float | None) -> None:
    """No deadline, or one a year away: the calls are settled by `join_timeout`."""
    async with running_sidecar_for_tests(rules={"join_timeout": timedelta(milliseconds=200)}) as sidecar:
        sidecar.runner.use("shop", hangs())
        request = sidecar.dispatch_request(await sidecar.bind(), "ask_shop")
        stream = sidecar.stub.Dispatch(request, timeout=seconds, metadata=sidecar.metadata)
        (outcome,) = [message.frame async for message in stream][-1].result.outcomes
        assert outcome.status.reason == error_reason_pb2.ERROR_REASON_JOIN_DEADLINE
