"""The authority matrix over TLS: every RPC of the descriptors, at every TLS listener, with every kind of certificate.

The expectation is written here by hand and is not the sidecar's table. Reliability rows 39, 42 and 46.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import grpc
import pytest

from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from subagents.admin.v1 import admin_pb2
from subagents.dispatch.v1 import dispatch_pb2
from subagents.envelope.v1 import envelope_pb2
from subagents.history.v1 import history_pb2
from subagents.lifecycle.v1 import lifecycle_pb2
from subagents.runner.v1 import runner_pb2
from subagents.tools.v1 import tools_pb2
from tests.rpc.raw_calls import raw
from tests.support.authority import AGENT, HOST, OPERATOR
from tests.support.requests import failure_from
from tests.support.sidecar_process import place
from tests.support.tls_sidecar import a_tls_sidecar

FILES: Final = (dispatch_pb2, history_pb2, tools_pb2, lifecycle_pb2, admin_pb2, runner_pb2, envelope_pb2)
LISTENER: Final = {"dispatch": "dispatch", "history": "dispatch", "tools": "agents", "lifecycle": "operators"}
LISTENERS: Final = {**LISTENER, "admin": "operators", "runner": "nowhere", "envelope": "nowhere"}
FOR_OPERATORS_TOO: Final = frozenset(
    f"/subagents.history.v1.HistoryService/{name}" for name in ("ListTurns", "GetTurn", "WatchEvents", "RecordScore")
)
"""What the operators' listener serves beside its own services."""
CERTIFICATES: Final = {
    "the agent": (AGENT,),
    "the host": (HOST,),
    "the operator": (OPERATOR,),
    "a stranger": ("spiffe://tests.example/stranger",),
    "two SPIFFE ids": (AGENT, HOST),
    "names of two peers": (OPERATOR, "second.example"),
    "none": (),
}
OWNER: Final = {"dispatch": "the agent", "agents": "the host", "operators": "the operator"}
BEHIND_THE_CERTIFICATE: Final = {"agents": {"GRANT_INVALID", "INVALID_REQUEST"}, "operators": {"ROLE_TOKEN_INVALID"}}
"""What still refuses a caller whose certificate is listed: it brings neither a grant nor a role token."""
TURNED_AWAY: Final = frozenset({"WRONG_LISTENER", "CALLER_NOT_ALLOWED", "BOOT_SECRET_WRONG"})
TWO_PEERS: Final = """
[tls.peers.second]
identities = ["second.example"]
may = ["dispatch", "agents", "operators"]
slots = ["*"]
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a sidecar keeps its files."""
    with place() as made:
        yield made


def methods() -> Iterator[tuple[frozenset[str], str]]:
    """Yield the listeners and the full name of every RPC that our protos declare."""
    for file in FILES:
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                name = f"/{service.full_name}/{method.name}"
                more = {"operators"} if name in FOR_OPERATORS_TOO else set[str]()
                yield frozenset({LISTENERS[service.full_name.split(".")[1]], *more}), name


async def reason_of(channel: grpc.aio.Channel, method: str, secret: str) -> str:
    """Return why a call is refused; empty if it is answered or ends otherwise."""
    call = raw(channel, method, b"", ((BOOT_SECRET_KEY, secret),))
    try:
        await call.read()
    except grpc.aio.AioRpcError as error:
        return failure_from(error).reason
    finally:
        call.cancel()
    return ""


async def test_every_cell_over_tls_is_as_written_down_here(folder: Path) -> None:
    """50 methods and more at three listeners with seven certificates, each with the right boot secret beside it."""
    wrong: list[str] = []
    async with a_tls_sidecar(folder, TWO_PEERS) as served:
        secret = served.sidecar.boot_secret
        for at, (name, names) in product(OWNER, CERTIFICATES.items()):
            channel = await served.channel(at, served.authority.issue(*names))
            for listeners, method in methods():
                reason = await reason_of(channel, method, secret)
                if at in listeners and OWNER[at] == name:
                    right = reason in BEHIND_THE_CERTIFICATE[at] if at != "dispatch" else reason not in TURNED_AWAY
                else:
                    closed = listeners & {at, "nowhere"}
                    right = reason == ("CALLER_NOT_ALLOWED" if closed else "WRONG_LISTENER")
                if not right:
                    wrong.append(f"{method} at {at} with {name}: {reason or 'let in'}")
    assert wrong == []
    assert len(list(methods())) >= 50
