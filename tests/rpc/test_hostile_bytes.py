"""Bytes that are no message: a fixed text, never UNKNOWN, nothing of the parser's (reliability row 40)."""

import pytest
from grpc import StatusCode

from sidecar.rpc.authorisation import GRANT_KEY
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.rpc.raw_calls import BAD_UTF8, CALL_TOOL, DEEP, DISPATCH, DISPATCH_METHODS, TRUNCATED, raw_failure
from tests.support.harness import running_sidecar_for_tests
from tests.support.requests import a_bind, a_call

BODIES = {"truncated": TRUNCATED, "bad UTF-8": BAD_UTF8, "deep": DEEP}


@pytest.mark.parametrize("kind", BODIES)
async def test_bytes_that_are_no_message_are_refused_with_a_fixed_text(kind: str) -> None:
    """Every method of the dispatch listener."""
    async with running_sidecar_for_tests() as sidecar:
        for name in DISPATCH_METHODS:
            failure = await raw_failure(sidecar.channel, DISPATCH + name, BODIES[kind], sidecar.metadata)
            assert (failure.code, failure.reason) == (StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE"), name
            assert failure.message == "the bytes are not the message that this method takes"


@pytest.mark.parametrize("kind", BODIES)
async def test_the_tool_gateway_refuses_them_too(kind: str) -> None:
    """With a grant, since without one nothing would be parsed."""
    async with running_sidecar_for_tests() as sidecar:
        failure = await raw_failure(sidecar.tools_channel, CALL_TOOL, BODIES[kind], ((GRANT_KEY, "any"),))
        assert (failure.code, failure.reason) == (StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE")


@pytest.mark.parametrize(
    "method",
    [
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ],
)
async def test_health_and_reflection_refuse_them_too(method: str) -> None:
    """They are behind the same wrapper."""
    async with running_sidecar_for_tests(reflection=True) as sidecar:
        failure = await raw_failure(sidecar.channel, method, TRUNCATED, sidecar.metadata)
        assert (failure.code, failure.reason) == (StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE")


async def test_nothing_is_parsed_for_a_caller_who_was_not_let_in() -> None:
    """Without the boot secret the answer is about the secret, whatever the bytes are."""
    async with running_sidecar_for_tests() as sidecar:
        failure = await raw_failure(sidecar.channel, DISPATCH + "BindTurn", TRUNCATED)
        assert failure.reason == "BOOT_SECRET_WRONG"


async def test_a_message_over_the_limit_is_refused() -> None:
    """4 MiB and a little; the next call is served."""
    async with running_sidecar_for_tests() as sidecar:
        body = pb.BindTurnRequest(turn_id="x" * (4 * 1024 * 1024 + 1)).SerializeToString()
        failure = await raw_failure(sidecar.channel, DISPATCH + "BindTurn", body, sidecar.metadata)
        assert failure.code is StatusCode.RESOURCE_EXHAUSTED
        assert (await sidecar.bind()).surface_token


async def test_fields_of_a_newer_client_are_ignored() -> None:
    """An unknown field at the end of a whole request."""
    async with running_sidecar_for_tests() as sidecar:
        newer = pb.BindTurnRequest.FromString(a_bind().SerializeToString() + b"\xfa\x06\x03new")
        assert (await sidecar.stub.BindTurn(newer, metadata=sidecar.metadata)).surface.sub_agent_tools


@pytest.mark.parametrize(
    "arguments",
    ["", "{", "null", "[1]", '"text"', "[" * 100_000, '{"request": "a"' + " " * 70_000 + "}", '{"request": 1}'],
    ids=["empty", "cut", "null", "list", "text", "deep", "long", "wrong type"],
)
async def test_arguments_that_do_not_fit_cost_only_their_own_call(arguments: str) -> None:
    """What a model wrote wrongly is an outcome and no failed RPC, so that its siblings run."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, a_call("bad", "ask_shop", arguments), a_call("good", "ask_rewards"))
        assert reply.outcomes == ["REFUSED", "SUCCEEDED"]
        assert sidecar.runner.started == ["rewards"]
