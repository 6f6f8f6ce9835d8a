"""Who gets in where: every RPC of the descriptors, at every listener, with every kind of credential.

The expectation is written here by hand and is not the sidecar's table. Reliability rows 39 and 42.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import product
from typing import Any, Final

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf.message import Message

from sidecar.adapters.checkpoints import Ed25519Signer
from sidecar.rpc.authorisation import BOOT_SECRET_KEY, GRANT_KEY
from sidecar.rpc.operators import ROLES_OF
from subagents.admin.v1 import admin_pb2
from subagents.dispatch.v1 import dispatch_pb2
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.envelope.v1 import envelope_pb2
from subagents.history.v1 import history_pb2
from subagents.lifecycle.v1 import lifecycle_pb2
from subagents.runner.v1 import runner_pb2
from subagents.tools.v1 import tools_pb2
from tests.rpc.raw_calls import raw
from tests.support.fake_runner import hangs
from tests.support.harness import SECRET, running_sidecar_for_tests
from tests.support.lane_stub import LaneStub, OnLane, open_lane
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.requests import Failure, failure_from, failure_of, stream_failure_of

Credential = tuple[tuple[str, str], ...]

AT: Final[Mapping[str, str]] = {
    "subagents.dispatch.v1.DispatchService": "dispatch",
    "subagents.history.v1.HistoryService": "dispatch",
    "subagents.tools.v1.ToolGatewayService": "agents",
    "subagents.lifecycle.v1.LifecycleService": "operators",
    "subagents.admin.v1.AdminService": "operators",
    "subagents.runner.v1.SubAgentRunnerService": "nowhere",
    "subagents.envelope.v1.EnricherService": "nowhere",
}
"""Where each service is served; the sidecar calls the last two."""
SHARED_WITH_OPERATORS: Final = frozenset({"ListTurns", "GetTurn", "WatchEvents", "RecordScore"})
"""Methods of `HistoryService` that the operators' listener serves, too."""
FILES: Final = (dispatch_pb2, history_pb2, tools_pb2, lifecycle_pb2, admin_pb2, runner_pb2, envelope_pb2)
BODIES: Final = {
    "CallTool": tools_pb2.CallToolRequest(tool_id="any", arguments_json="{}").SerializeToString(),
    "Delegate": tools_pb2.DelegateRequest(tool_name="ask_any", arguments_json="{}").SerializeToString(),
    "ReadOwnTurns": tools_pb2.ReadOwnTurnsRequest(max_turns=1).SerializeToString(),
}
"""Requests in order: what is wrong with a request is said before its grant is looked up."""
ROLES: Final = ("viewer", "operator", "automation", "breaker")
TURNED_AWAY: Final = frozenset(
    {
        "WRONG_LISTENER",
        "CALLER_NOT_ALLOWED",
        "BOOT_SECRET_WRONG",
        "GRANT_INVALID",
        "ROLE_TOKEN_INVALID",
        "ROLE_REQUIRED",
    }
)


def methods() -> Iterator[tuple[str, str]]:
    """Yield service and method of every RPC that our protos declare."""
    declared = (service for file in FILES for service in file.DESCRIPTOR.services_by_name.values())
    yield from ((service.full_name, method.name) for service in declared for method in service.methods)


def credentials(bench: OperatedSidecar, grant: str) -> Mapping[str, Credential]:
    """Return every kind of credential that a caller can bring."""
    stranger = Ed25519Signer(Ed25519PrivateKey.generate())
    expired = int(bench.clock.now().timestamp()) - 3600
    secret, granted = (BOOT_SECRET_KEY, SECRET), (GRANT_KEY, grant)
    return {
        "nothing": (),
        "a wrong secret": ((BOOT_SECRET_KEY, SECRET[::-1]),),
        "the secret": (secret,),
        "the secret twice": (secret, secret),
        "a forged grant": ((GRANT_KEY, grant[::-1]),),
        "a live grant": (granted,),
        "an expired token": bench.role("operator", nbf=expired, exp=expired + 900),
        "a token of another key": bench.role("operator", signer=stranger),
        "a token for another deployment": bench.role("operator", aud="another"),
        **{f"a token of role {role}": bench.role(role) for role in ROLES},
        "secret and grant": (secret, granted),
        "everything": (secret, granted, *bench.role("operator")),
    }


def admitted(service: str, method: str, listener: str, credential: str) -> bool:
    """Say whether a call has to get past the door."""
    shared = listener == "operators" and service.endswith(".HistoryService") and method in SHARED_WITH_OPERATORS
    if AT[service] != listener and not shared:
        return False
    if listener == "dispatch":
        return credential in {"the secret", "secret and grant", "everything"}
    if listener == "agents":
        return credential in {"a live grant", "secret and grant", "everything"}
    role = "operator" if credential == "everything" else credential.removeprefix("a token of role ")
    return role in {str(each) for each in ROLES_OF[f"/{service}/{method}"]}


async def got_in(channel: grpc.aio.Channel, method: str, credential: Credential) -> bool:
    """Say whether a call gets past the door: answered, or refused for what it asks."""
    call = raw(channel, method, BODIES.get(method.rpartition("/")[2], b""), credential)
    try:
        await call.read()
    except grpc.aio.AioRpcError as error:
        return error.code() is not grpc.StatusCode.UNIMPLEMENTED and failure_from(error).reason not in TURNED_AWAY
    finally:
        call.cancel()
    return True


async def test_every_cell_of_the_matrix_is_as_written_down_here() -> None:
    """Every method at three listeners with 15 credentials; a method that is added is in the matrix at once."""
    async with an_operated_sidecar() as bench, attempt_running(bench) as grant:
        sidecar, brought = bench.sidecar, credentials(bench, grant)
        listeners = {"dispatch": sidecar.channel, "agents": sidecar.tools_channel, "operators": bench.channel}
        wrong: list[str] = []
        for (service, method), (at, channel), (name, metadata) in product(
            methods(), listeners.items(), brought.items()
        ):
            expected = admitted(service, method, at, name)
            if await got_in(channel, f"/{service}/{method}", metadata) is not expected:
                wrong.append(f"{service}/{method} at {at} with {name}: should be {'let in' if expected else 'refused'}")
    assert wrong == []


def test_the_matrix_is_as_large_as_it_should_be() -> None:
    """50 methods or more: the descriptors are all there."""
    assert len(list(methods())) >= 50


@asynccontextmanager
async def attempt_running(bench: OperatedSidecar) -> AsyncIterator[str]:
    """Have a sub-agent run; gives the grant of its attempt."""
    sidecar = bench.sidecar
    await bench.promoted(ramp=9999)
    sidecar.runner.use("shop", hangs())
    request = sidecar.dispatch_request(await sidecar.bind(), "ask_shop")
    stream = sidecar.stub.Dispatch(request, metadata=sidecar.metadata)
    await sidecar.runner.until_started("shop")
    yield sidecar.runner.request_of("shop").grant
    stream.cancel()


def of_the_lane(token: str) -> Mapping[str, Message]:
    """Return every operation of the session lane that names a turn, by the RPC that it equals."""
    call = pb.ToolCall(call_id="c-1", tool_name="ask_shop", arguments_json="{}")
    return {
        "Dispatch": pb.DispatchRequest(surface_token=token, dispatch_id="d-1", calls=[call]),
        "ResumeDispatch": pb.ResumeDispatchRequest(surface_token=token, dispatch_id="d-1"),
        "CancelCall": pb.CancelCallRequest(surface_token=token, dispatch_id="d-1", call_id="c-1"),
        "CloseChild": pb.CloseChildRequest(surface_token=token, child_id="x"),
        "EndTurn": pb.EndTurnRequest(surface_token=token),
    }


@pytest.mark.parametrize("method", of_the_lane(""))
@pytest.mark.parametrize("forged", ["none", "made up", "altered"])
async def test_an_operation_of_a_lane_is_refused_for_a_forged_surface_as_its_rpc_is(method: str, forged: str) -> None:
    """A lane proves that its client has the boot secret. It opens no turn that the client was not given."""
    async with running_sidecar_for_tests() as sidecar:
        mine = (await sidecar.bind()).surface_token
        token = {"none": "", "made up": "x" * 40, "altered": mine[:-4] + mine[-4:][::-1]}
        request = of_the_lane(token[forged])[method]
        plain = await refused(getattr(sidecar.stub, method)(request, timeout=10, metadata=sidecar.metadata))
        async with open_lane(sidecar.channel, sidecar.metadata) as lane:
            on_lane = await refused(LaneStub(lane, sidecar.stub).__dict__[method](request, timeout=10))
    assert (on_lane.code, on_lane.reason) == (plain.code, plain.reason)
    assert plain.code in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.NOT_FOUND}


async def refused(call: Any) -> Failure:
    """Return how a call fails, a stream or not."""
    streams = hasattr(call, "__aiter__") and not isinstance(call, OnLane)
    return await (stream_failure_of(call) if streams else failure_of(call))
