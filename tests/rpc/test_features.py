"""A client that relies on a feature hears at once whether the sidecar offers it, and what to do if it does not."""

import grpc

from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.harness import running_sidecar_for_tests
from tests.support.lane_stub import RawLane, hello
from tests.support.requests import a_bind, failure_of


def relying_on(*features: str) -> pb.BindTurnRequest:
    """Return a bind that requires features."""
    request = a_bind(turn_id="turn-1")
    request.required_features.extend(features)
    return request


async def test_a_bind_and_a_lane_state_the_contract() -> None:
    """Version and features, before a client relies on either."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.stub.BindTurn(relying_on("session"), metadata=sidecar.metadata)
        lane = RawLane(sidecar.channel, sidecar.metadata)
        said = await lane.say_hello(required_features=["session"])

    assert (bound.contract.version, list(bound.contract.features)) == (1, ["session"])
    assert said.contract == bound.contract


async def test_a_bind_that_needs_a_missing_feature_binds_nothing() -> None:
    """The error names what is missing, what is offered and what to do; the turn id is still free afterwards."""
    async with running_sidecar_for_tests() as sidecar:
        bind = relying_on("session", "time_travel")
        failure = await failure_of(sidecar.stub.BindTurn(bind, metadata=sidecar.metadata))
        again = await sidecar.stub.BindTurn(relying_on("session"), metadata=sidecar.metadata)

    assert (failure.code, failure.reason) == (grpc.StatusCode.UNIMPLEMENTED, "FEATURE_UNSUPPORTED")
    assert failure.metadata == {"missing": "time_travel", "offered": "session", "contract_version": "1"}
    assert "do without, or use a sidecar that offers it" in failure.message
    assert again.state == pb.START_STATE_STARTED


async def test_a_lane_that_needs_a_missing_feature_ends_with_the_reason() -> None:
    """Before any operation of it begins."""
    async with running_sidecar_for_tests() as sidecar:
        lane = RawLane(sidecar.channel, sidecar.metadata)
        await lane.call.write(hello(required_features=["time_travel"]))
        failure = await lane.failure()

    assert (failure.code, failure.reason) == (grpc.StatusCode.UNIMPLEMENTED, "FEATURE_UNSUPPORTED")


async def test_names_that_no_feature_can_have_are_an_invalid_request() -> None:
    """Empty, too long, or too many."""
    async with running_sidecar_for_tests() as sidecar:
        for names in ([""], ["x" * 61], ["x"] * 33):
            failure = await failure_of(sidecar.stub.BindTurn(relying_on(*names), metadata=sidecar.metadata))
            assert (failure.reason, list(failure.fields)) == ("INVALID_REQUEST", ["required_features"])
