"""The way in: connect to the sidecar and bind turns."""

from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from subagents.dispatch.v1 import dispatch_pb2
from subagents.history.v1 import history_pb2
from subagents_client import translate, translate_history
from subagents_client.channels import open_channel, refuse_remote
from subagents_client.history.episodes import Episode, EpisodeSize, EpisodeView
from subagents_client.recorded_history import RecordedHistory
from subagents_client.runtime import ClientRuntime, ClientTimeouts
from subagents_client.surface import Binding, TurnRequest
from subagents_client.turn import BoundTurn
from subagents_client.wire import Wire
from subagents_tls.files import TlsFiles


class SidecarClient:
    """A client of one sidecar. Open it with `connect`, use it for many turns at a time, and close it.

    One connection carries everything. Belongs to the event loop in which it was made.

    Attributes:
        history: what is on record of turns, for people and audit; and scores of calls.
    """

    def __init__(self, channel: grpc.aio.Channel, wire: Wire) -> None:
        self._channel = channel
        self._wire = wire
        self.history = RecordedHistory(wire)

    @classmethod
    def connect(
        cls,
        target: str,
        *,
        boot_secret: str = "",
        boot_secret_file: str | Path | None = None,
        timeouts: ClientTimeouts | None = None,
        runtime: ClientRuntime | None = None,
        session_lane: bool = True,
    ) -> Self:
        """Return a client; the connection is made when it is first needed. To be called in a running event loop.

        Args:
            target: `unix:/run/sidecar/dispatch/sidecar.sock`, or a port on loopback.
            boot_secret: what the sidecar wrote at its start.
            boot_secret_file: where it wrote it; instead of `boot_secret`.
            timeouts: how long things may take.
            runtime: clock, chance, ids and trace.
            session_lane: carry turns over one long stream where the sidecar offers it; nothing else differs.

        Raises:
            ValueError: `target` is beyond this machine, or both secrets were given.
            OSError: the file cannot be read.
        """
        refuse_remote(target)
        if boot_secret_file is not None:
            if boot_secret:
                raise ValueError("give boot_secret or boot_secret_file, not both")
            boot_secret = _secret_in(Path(boot_secret_file))
        channel = open_channel(target)
        around = runtime or ClientRuntime()
        return cls(
            channel, Wire(channel, target, boot_secret, timeouts or ClientTimeouts(), around, session_lane=session_lane)
        )

    @classmethod
    def connect_over_tls(
        cls,
        target: str,
        tls: TlsFiles,
        *,
        timeouts: ClientTimeouts | None = None,
        runtime: ClientRuntime | None = None,
        session_lane: bool = True,
    ) -> Self:
        """Return a client of a sidecar at a TCP address; the certificate takes the place of the boot secret.

        Args:
            target: such as `dns:///sidecar.example.org:7443`.
            tls: authority, own certificate and key; followed when their files change.
            timeouts: how long things may take.
            runtime: clock, chance, ids and trace.
            session_lane: carry turns over one long stream where the sidecar offers it; nothing else differs.

        Raises:
            ValueError: `target` is a Unix socket, or the files cannot be used.
        """
        channel = open_channel(target, tls)
        around = runtime or ClientRuntime()
        return cls(channel, Wire(channel, target, "", timeouts or ClientTimeouts(), around, session_lane=session_lane))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls in flight end at once. Safe to repeat."""
        await self._wire.lanes.close()
        await self._channel.close()

    async def bind_turn(self, request: TurnRequest, *, timeout: timedelta | None = None) -> BoundTurn:
        """Bind a turn: get the tools and the prompt that it may use, which then stay fixed. Call it before the model.

        Safe to repeat with the same `turn_id` and contents, also in another process: the surface is the same.

        Raises:
            UnknownOrchestrator, TurnIdReused, InvalidRequest, Unauthenticated: request or configuration is wrong.
            DependencyUnavailable, Overloaded, DeadlineExceeded: the sidecar cannot bind now; continue the turn
                without sub-agents.

        Source: PC2-FR-1, PC2-FR-2.
        """
        turn_id = request.turn_id or self._wire.runtime.new_id()
        answer = await self._wire.ask(
            self._wire.stub.BindTurn, _message(request, turn_id), "BindTurn", timeout or self._wire.timeouts.bind
        )
        self._wire.lanes.offered(answer.contract)
        binding = Binding(
            turn_id=turn_id,
            surface=translate.surface(answer.surface, answer.compaction_due),
            surface_token=answer.surface_token,
            expires_at=translate.timestamp(answer.expires_at),
            state=translate.start_state(answer.state),
        )
        return BoundTurn(self._wire, binding)

    async def read_episode(
        self,
        episode_id: str,
        principal: str,
        *,
        view: EpisodeView = EpisodeView.NARRATION,
        max_turns: int = 0,
        timeout: timedelta | None = None,
    ) -> Episode:
        """Read a conversation from the episode memory; empty if it has none. Safe to repeat.

        Args:
            episode_id: the conversation.
            principal: its user, as in `bind_turn`; turns of other users are not read.
            view: `NARRATION` for a model (see `Episode.context_messages`), `FULL` for replay and audit.
            max_turns: the most turns, counted from the newest; 0: as many as the operator allows.
            timeout: None: `ClientTimeouts.unary`.

        Raises:
            InvalidRequest: the request is wrong.
            DependencyUnavailable, DeadlineExceeded: the history cannot be read now; continue without it.

        Source: PC1-FR-10, PC1-D-26.
        """
        request = history_pb2.ReadEpisodeRequest(
            episode_id=episode_id, principal=principal, view=f"EPISODE_VIEW_{view.name}", max_turns=max_turns
        )
        limit = timeout or self._wire.timeouts.unary
        return translate_history.episode(
            await self._wire.ask(self._wire.history.ReadEpisode, request, "ReadEpisode", limit)
        )

    async def write_summary(
        self,
        episode_id: str,
        principal: str,
        text: str,
        *,
        up_to_turn_id: str,
        expected_revision: int,
        timeout: timedelta | None = None,
    ) -> EpisodeSize:
        """Replace the rolling summary of a conversation, while `Surface.compaction_due` says so. Safe to repeat.

        Args:
            episode_id: the conversation.
            principal: its user.
            text: the new summary: of the turns up to `up_to_turn_id`, and of the present summary; narration only.
            up_to_turn_id: the newest turn that the summary replaces; not one of the most recent ones.
            expected_revision: the `Episode.revision` that was read.
            timeout: None: `ClientTimeouts.unary`.

        Returns:
            The size of the episode after the change.

        Raises:
            SummaryOutdated: another client has written a summary meanwhile; read the episode again.
            CompactionNotDue, RecentTurnsIntact, InvalidRequest: this summary may not be written.
            DependencyUnavailable, DeadlineExceeded: it cannot be written now; the next bind reports it again.

        Source: PC1-FR-11.
        """
        request = history_pb2.WriteSummaryRequest(
            episode_id=episode_id,
            principal=principal,
            text=text,
            up_to_turn_id=up_to_turn_id,
            expected_revision=expected_revision,
        )
        limit = timeout or self._wire.timeouts.unary
        answer = await self._wire.ask(self._wire.history.WriteSummary, request, "WriteSummary", limit)
        return translate_history.size(answer.size)


def _secret_in(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        error.add_note(f"the sidecar writes {file} at its start (server.boot_secret_file): is it running?")
        raise


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
        required_features=request.required_features,
        user_token=request.user_token,
    )
