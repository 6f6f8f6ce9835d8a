"""Who may do what over a session lane: every operation of the descriptors, at every listener, with every credential.

The operations come from the descriptor of `SessionOperation`, so that one that is added is in the matrix at once.
Reliability rows 39 and 42.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any, Final

import grpc
from google.protobuf.message_factory import GetMessageClass

from sidecar.rpc.session.rules import OPERATIONS
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.rpc.raw_calls import raw
from tests.rpc.test_authority_matrix import TURNED_AWAY, Credential, admitted, attempt_running, credentials, of_the_lane
from tests.support.lane_stub import hello, operation
from tests.support.operators import an_operated_sidecar
from tests.support.requests import failure_from

SERVICE: Final = "subagents.dispatch.v1.DispatchService"
NOT_ON_LANES: Final = frozenset({"Session", "DispatchUnary"})
"""The lane itself, and a dispatch without a stream, which a lane needs no form of its own for."""


def operations() -> Mapping[str, Any]:
    """Return the descriptor of every request that an operation can hold."""
    request = pb.SessionOperation.DESCRIPTOR.oneofs_by_name["request"]
    return {field.name: field.message_type for field in request.fields}


def method_of(kind: str) -> str:
    """Return the RPC with the same request as an operation."""
    methods = pb.DESCRIPTOR.services_by_name["DispatchService"].methods
    (found,) = [method.name for method in methods if method.input_type is operations()[kind]]
    return str(found)


async def lane_lets_in(channel: grpc.aio.Channel, kind: str, credential: Credential) -> bool:
    """Say whether a lane with this credential carries out an operation: answers it, or refuses what it asks.

    The lane is one message: a call that is refused while a second one is being written would lose its status.
    """
    message = hello()
    fields: dict[str, Any] = {kind: GetMessageClass(operations()[kind])()}
    message.operations.append(operation(1, **fields))
    call = raw(channel, f"/{SERVICE}/Session", message.SerializeToString(), credential)
    try:
        while answer := await call.read():
            for result in pb.SessionResponse.FromString(answer).results:
                if result.HasField("status"):
                    return result.status.reason not in TURNED_AWAY
    except grpc.aio.AioRpcError as error:
        return error.code() is not grpc.StatusCode.UNIMPLEMENTED and failure_from(error).reason not in TURNED_AWAY
    finally:
        call.cancel()
    raise AssertionError(f"{kind} was neither carried out nor refused")


async def test_every_operation_is_let_in_where_its_rpc_is_and_nowhere_else() -> None:
    """Each operation at three listeners with 15 credentials: the table of the plain RPCs is the expectation."""
    async with an_operated_sidecar() as bench, attempt_running(bench) as grant:
        sidecar, brought = bench.sidecar, credentials(bench, grant)
        listeners = {"dispatch": sidecar.channel, "agents": sidecar.tools_channel, "operators": bench.channel}
        wrong: list[str] = []
        for kind, (at, channel), (name, metadata) in product(operations(), listeners.items(), brought.items()):
            expected = admitted(SERVICE, method_of(kind), at, name)
            if await lane_lets_in(channel, kind, metadata) is not expected:
                wrong.append(f"{kind} at {at} with {name}: should be {'carried out' if expected else 'refused'}")
    assert wrong == []


def test_every_rpc_of_the_consumer_agent_is_an_operation_and_each_has_its_own_handler() -> None:
    """A new RPC has to be carried, or named here as one that is not."""
    methods = pb.DESCRIPTOR.services_by_name["DispatchService"].methods_by_name
    assert {kind: method_of(kind) for kind in operations()} == OPERATIONS
    assert set(OPERATIONS.values()) == set(methods) - NOT_ON_LANES


def test_forged_surfaces_are_tried_on_every_operation_that_names_a_turn() -> None:
    """The table of `test_authority_matrix` is whole."""
    kinds = [kind for kind, request in operations().items() if "surface_token" in request.fields_by_name]
    assert {method_of(kind) for kind in kinds} == set(of_the_lane(""))
