"""Takes steps of rollouts as an operator does, over the operators' listener, with a token of its own."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from scripts.benchmark.definitions import INSTANT, slots
from sidecar.adapters.checkpoints import Ed25519Signer
from sidecar.core.operators.role_tokens import RoleClaims, seal
from sidecar.core.roles import Role
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.rpc.operators import ROLE_TOKEN_KEY
from subagents.lifecycle.v1 import lifecycle_pb2 as pb
from subagents.lifecycle.v1 import lifecycle_pb2_grpc, reading_pb2

DEPLOYMENT: Final = "bench"
LIFE: Final = timedelta(minutes=50)
TIMEOUT_SECONDS: Final = 30.0
ALMOST_ALL: Final = WHOLE - 1
REASON: Final = "measured by the bench"


class OperatorKey:
    """A key that sidecars accept, and the tokens made of it.

    Args:
        file: where its public half is written.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._signer = Ed25519Signer(Ed25519PrivateKey.generate())
        file.write_bytes(self._signer.public_pem())

    def token(self) -> str:
        """Return a token that allows everything for as long as a bench takes."""
        now = datetime.now(UTC)
        claims = RoleClaims(
            kid=self._signer.key_id,
            aud=DEPLOYMENT,
            sub="bench",
            role=Role.OPERATOR,
            nbf=int(now.timestamp()),
            exp=int((now + LIFE).timestamp()),
            jti=uuid4().hex,
        )
        return seal(claims, self._signer.sign)


class Operator:
    """Takes steps at one sidecar."""

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        """Make the stub."""
        self._stub: Any = lifecycle_pb2_grpc.LifecycleServiceStub(channel)
        self._metadata = ((ROLE_TOKEN_KEY, token),)

    async def kill(self, definition_id: str) -> None:
        """Take a definition off every surface. Returns when that is accepted."""
        await self._ask(self._stub.Kill, pb.KillRequest(header=_header(definition_id)))

    async def roll_back(self, definition_id: str) -> None:
        """Roll a definition back, which leaves its slot empty. Returns when that is accepted."""
        await self._ask(self._stub.RollBack, pb.RollBackRequest(header=_header(definition_id)))

    async def set_ramp(self, definition_id: str, basis_points: int) -> None:
        """Set the ramp of a definition that its slot is named after."""
        found = await self._ask(self._stub.GetRollout, reading_pb2.GetRolloutRequest(slot=definition_id))
        header = _header(definition_id)
        header.expected_revision = found.status.revision
        await self._ask(self._stub.SetRamp, pb.SetRampRequest(header=header, ramp_basis_points=basis_points))

    async def _ask(self, method: Any, request: Any) -> Any:
        return await method(request, timeout=TIMEOUT_SECONDS, metadata=self._metadata)


def operators_socket(socket: Path) -> Path:
    """Return where the sidecar of `socket` listens to operators."""
    return socket.parent / "operators.sock"


def _header(definition_id: str) -> pb.StepHeader:
    return pb.StepHeader(definition_id=definition_id, request_id=uuid4().hex, reason=REASON)


async def ramped(socket: Path, key: OperatorKey) -> None:
    """Leave one user in ten thousand outside of each instant sub-agent, so that each bind has to look who it is for.

    Also ask for one step back up, about which policies are asked and which no gate lets pass: they are loaded then.
    """
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        operator = Operator(channel, key.token())
        for slot in slots(INSTANT):
            await operator.set_ramp(slot, ALMOST_ALL)
        try:
            await operator.set_ramp(slots(INSTANT)[0], WHOLE)
        except grpc.aio.AioRpcError as held:
            if held.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
