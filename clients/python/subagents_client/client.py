"""`SidecarClient`: connects to a sidecar, binds turns, and reads and compacts conversations."""

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
    """A client of one sidecar. Create it with `connect`, use it for any number of concurrent turns, and close it.

    All requests use one connection. A client can only be used in the event loop in which it was created.

    Attributes:
        history: reads the record of turns, for people and audit, and records scores of calls.
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
        """Return a client of a sidecar on this machine; it connects with the first request.

        Call this method in a running event loop.

        Args:
            target: a Unix socket such as `unix:/run/sidecar/dispatch/sidecar.sock`, or a loopback address with a port.
            boot_secret: the boot secret, which the sidecar writes to a file at its start.
            boot_secret_file: the file with the boot secret, as an alternative to `boot_secret`.
            timeouts: default timeouts and limits of retries; None: the defaults of `ClientTimeouts`.
            runtime: clock, randomness, ids and trace; None: the defaults of `ClientRuntime`.
            session_lane: whether to send the requests of turns over one long stream, if the sidecar offers it. This
                costs less per request; results are the same.

        Raises:
            ValueError: `target` is on another machine, or both `boot_secret` and `boot_secret_file` were given.
            OSError: `boot_secret_file` cannot be read.
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
        """Return a client of a sidecar at a TCP address; a client certificate replaces the boot secret.

        Args:
            target: address such as `dns:///sidecar.example.org:7443`.
            tls: files of the authority, the client's certificate and its key; read again when they change.
            timeouts: as in `connect`.
            runtime: as in `connect`.
            session_lane: as in `connect`.

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
        """Close the connection and end all requests in flight immediately. Safe to repeat."""
        await self._wire.lanes.close()
        await self._channel.close()

    async def bind_turn(self, request: TurnRequest, *, timeout: timedelta | None = None) -> BoundTurn:
        """Bind a turn and return it, with its tools and prompt. Call this method before the model.

        Safe to repeat with the same `turn_id` and contents, also in another process: the surface is the same.

        Args:
            request: principal, episode and other data of the turn.
            timeout: maximum time for the request; None: `ClientTimeouts.bind`.

        Raises:
            UnknownOrchestrator, TurnIdReused, InvalidRequest, Unauthenticated: the request or configuration is wrong.
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
        """Return the history of a conversation; an unknown conversation has an empty one. Safe to repeat.

        Args:
            episode_id: id of the conversation.
            principal: its user, as in `bind_turn`; turns of other users are not returned.
            view: `NARRATION` for a model (see `Episode.context_messages`), `FULL` for replay and audit.
            max_turns: maximum number of turns, of which the newest are returned; 0: as many as the operator allows.
            timeout: maximum time for the request; None: `ClientTimeouts.unary`.

        Raises:
            InvalidRequest: an argument is invalid.
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
        """Replace the rolling summary of a conversation. Allowed while compaction is due. Safe to repeat.

        `Surface.compaction_due` reports whether it is due.

        Args:
            episode_id: id of the conversation.
            principal: its user.
            text: the new summary; at most 64 KiB; without component data. It must include the content of the present
                summary, which it replaces, and of the turns up to `up_to_turn_id`.
            up_to_turn_id: the newest turn that the summary covers; it must not be one of the most recent turns.
            expected_revision: `Episode.revision` as it was read; 0: there was no summary.
            timeout: maximum time for the request; None: `ClientTimeouts.unary`.

        Returns:
            The size of the episode after the change.

        Raises:
            SummaryOutdated: another client wrote a summary in the meantime; read the episode again.
            CompactionNotDue, RecentTurnsIntact, InvalidRequest: the sidecar refused the summary.
            DependencyUnavailable, DeadlineExceeded: the summary cannot be written now; the next bind reports again that
                compaction is due.

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
