"""The way in: connect to the sidecar and bind turns."""

from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from subagents.dispatch.v1 import dispatch_pb2
from subagents_client import translate
from subagents_client.channels import open_channel
from subagents_client.pacing import Limits, Surroundings
from subagents_client.surface import TurnRequest
from subagents_client.targets import refuse_remote
from subagents_client.turn import Binding, BoundTurn
from subagents_client.wire import Wire


class SidecarClient:
    """A client of one sidecar. Open it with `connect`, use it for many turns at a time, and close it.

    One connection carries everything. Belongs to the event loop in which it was made.
    """

    def __init__(self, channel: grpc.aio.Channel, wire: Wire) -> None:
        self._channel = channel
        self._wire = wire

    @classmethod
    def connect(
        cls,
        target: str,
        *,
        boot_secret: str = "",
        boot_secret_file: Path | None = None,
        limits: Limits | None = None,
        surroundings: Surroundings | None = None,
    ) -> Self:
        """Return a client; the connection is made when it is first needed. To be called in a running event loop.

        Args:
            target: `unix:/run/sidecar/dispatch.sock`, or a port on loopback.
            boot_secret: what the sidecar wrote at its start.
            boot_secret_file: where it wrote it; instead of `boot_secret`.
            limits: how long things may take.
            surroundings: clock, chance and ids, for tests.

        Raises:
            ValueError: `target` is beyond this machine, or both secrets were given.
            OSError: the file cannot be read.
        """
        refuse_remote(target)
        if boot_secret_file is not None:
            if boot_secret:
                raise ValueError("give boot_secret or boot_secret_file, not both")
            boot_secret = boot_secret_file.read_text(encoding="utf-8").strip()
        channel = open_channel(target)
        return cls(channel, Wire(channel, boot_secret, limits or Limits(), surroundings or Surroundings()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls in flight end at once. Safe to repeat."""
        await self._channel.close()

    async def bind_turn(self, request: TurnRequest, *, timeout: timedelta | None = None) -> BoundTurn:
        """Decide what one turn may call, and freeze it. Call it before the model is called.

        Safe to repeat with the same `turn_id` and contents: gives the same surface, in another process too.

        Raises:
            UnknownOrchestrator, TurnIdReused, InvalidRequest, Unauthenticated: the request or the set-up is wrong.
            DependencyAway, Overloaded, OutOfTime: the sidecar could not do it now; the turn goes on without sub-agents.

        Source: PC2-FR-1, PC2-FR-2.
        """
        turn_id = request.turn_id or self._wire.surroundings.new_id()
        answer = await self._wire.ask(
            self._wire.stub.BindTurn, _message(request, turn_id), "BindTurn", timeout or self._wire.limits.bind
        )
        binding = Binding(
            turn_id=turn_id,
            surface=translate.surface(answer.surface),
            surface_token=answer.surface_token,
            expires_at=translate.moment(answer.expires_at),
            state=translate.start_state(answer.state),
        )
        return BoundTurn(self._wire, binding)


def _message(request: TurnRequest, turn_id: str) -> dispatch_pb2.BindTurnRequest:
    return dispatch_pb2.BindTurnRequest(
        turn_id=turn_id,
        episode_id=request.episode_id,
        principal=request.principal,
        source=f"TURN_SOURCE_{request.source.name}",
        orchestrator_id=request.orchestrator_id,
        locale=request.locale,
        location=request.location,
        experiment_arm=request.experiment_arm,
        date=request.date,
    )
