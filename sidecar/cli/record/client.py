"""The client of the commands that show recorded turns: queries a running sidecar over its dispatch socket."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum, unique
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc
from google.protobuf.message import Message

from sidecar.cli.parameters.targets import NO_PROXY, refusal
from sidecar.core.decoding import DecodeError, from_ascii
from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import history_pb2_grpc

BOOT_SECRET_KEY: Final = "x-subagents-boot-secret"  # noqa: S105  the name of the header, not a secret
PATIENCE: Final = timedelta(seconds=10)
"""Time limit of a query."""
MOST_FAILURES: Final = 5
"""The most failures in a row before a watch ends."""
FIRST_PAUSE: Final = 0.25
"""Seconds before a broken watch is resumed, doubled once for each failure in a row."""
PAGE: Final = 200
"""The most rows that one request asks for."""
HOW_TO_FIND: Final = (
    "start one with `sidecar serve --config sidecar.toml`, or give its address with --config, or with --target and "
    "--boot-secret-file"
)


@unique
class RecordExit(IntEnum):
    """Exit codes of the commands that show turns; those from 64 on are the numbers of sysexits.h."""

    OK = 0
    NOT_FOUND = 1
    USAGE = 2
    UNAVAILABLE = 69
    INTERNAL = 70
    NOT_ALLOWED = 77


WORTH_ANOTHER_TRY: Final = (RecordExit.UNAVAILABLE, RecordExit.INTERNAL)
"""The codes with which a stopping sidecar ends its streams."""


@dataclass(frozen=True, slots=True)
class SidecarAddress:
    """The address of a sidecar: a gRPC target, and the file with the secret that its dispatch socket requires."""

    target: str
    boot_secret_file: Path | None


class RecordUnavailable(Exception):
    """What was asked for cannot be shown; the message has the cause and the remedy.

    Attributes:
        code: the exit code of the command.
        reason: the reason in `google.rpc.ErrorInfo`; empty if there is none.
    """

    def __init__(self, message: str, code: RecordExit, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class RecordClient(AbstractContextManager["RecordClient"]):
    """One connection to one sidecar.

    Args:
        where: the sidecar.
        pause: waits between two attempts, for a number of seconds.

    Raises:
        RecordUnavailable: by every method, and here if the secret cannot be read or would be sent unencrypted.
    """

    def __init__(self, where: SidecarAddress, pause: Callable[[float], None] = time.sleep) -> None:
        # Before the secret is read, so that no code path can send it to a refused address.
        if problem := refusal(where.target, "boot secret"):
            raise RecordUnavailable(
                f"{problem}; forward the socket, e.g. `ssh -L /run/a.sock:<server.dispatch_socket> host` for --target "
                "unix:/run/a.sock",
                RecordExit.USAGE,
            )
        self._where = where
        self._pause = pause
        # Read at each start of a client: the sidecar writes a new secret when it restarts.
        self._metadata = _metadata(where)
        self._channel = grpc.insecure_channel(where.target, NO_PROXY)
        make_stub: Any = history_pb2_grpc.HistoryServiceStub  # typed for asyncio only; works for both
        self._stub = make_stub(self._channel)

    def __enter__(self) -> Self:
        """Connect when first needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._channel.close()

    def turns(self, request: pb.ListTurnsRequest, most: int) -> tuple[list[Any], datetime | None]:
        """Return up to `most` turns, newest first, over several pages; and the time up to which they are complete."""
        return self._pages(self._stub.ListTurns, request, "turns", most)

    def turn(self, turn_id: str, child_ids: Sequence[str] = ()) -> pb.GetTurnResponse:
        """Return one turn. The error about an unknown turn names the command that lists turns."""
        try:
            answer: pb.GetTurnResponse = self._ask(
                self._stub.GetTurn, pb.GetTurnRequest(turn_id=turn_id, child_ids=child_ids)
            )
        except RecordUnavailable as problem:
            raise self._with_advice(problem, turn_id) from None
        return answer

    def episodes(self, most: int) -> tuple[list[Any], datetime | None]:
        """Return up to `most` episodes, most recent first, and the time up to which they are complete."""
        return self._pages(self._stub.ListEpisodes, pb.ListEpisodesRequest(), "episodes", most)

    def episode(self, request: pb.ReadEpisodeRequest) -> pb.ReadEpisodeResponse:
        """Return a conversation; empty if the episode memory has none under this id and user."""
        answer: pb.ReadEpisodeResponse = self._ask(self._stub.ReadEpisode, request)
        return answer

    def watch(self, turn_id: str) -> Iterator[pb.WatchEventsResponse]:
        """Yield the events of a turn until it has ended. Resumes at the last position when the connection breaks."""
        # The sequence number of the last event, by child: each child numbers its events itself.
        seen: dict[str, int] = {}
        failures = 0
        while True:
            after = [pb.SeenUpTo(child_id=child_id, sequence=number) for child_id, number in seen.items()]
            request = pb.WatchEventsRequest(turn_id=turn_id, after=after)
            try:
                for message in self._stub.WatchEvents(request, metadata=self._metadata):
                    failures = 0
                    # Before the message is yielded: after a break, the stream resumes behind what was received.
                    seen.update({event.child_id: event.sequence for event in message.events})
                    yield message
                    if message.ended:
                        return
            except grpc.RpcError as error:
                problem = _problem(error, self._where)
                failures += 1
                if problem.code not in WORTH_ANOTHER_TRY or failures >= MOST_FAILURES:
                    raise self._with_advice(problem, turn_id) from None
                # Growing pauses: a sidecar that restarts needs some seconds.
                self._pause(FIRST_PAUSE * 2**failures)

    def _pages(self, method: Any, request: Any, rows: str, most: int) -> tuple[list[Any], datetime | None]:
        """Return up to `most` rows, from the field `rows` of all pages, and the time up to which they are complete."""
        collected: list[Any] = []
        as_of: datetime | None = None
        while len(collected) < most:
            # Not more than are still missing, so that the caller gets at most `most` rows.
            request.page_size = min(PAGE, most - len(collected))
            page = self._ask(method, request)
            collected += getattr(page, rows)
            # Of the first page: later pages may be complete up to a later time, but the list as a whole is not.
            as_of = as_of or _as_of(page)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        return collected, as_of

    def _ask(self, method: Any, request: Message) -> Any:
        try:
            return method(request, timeout=PATIENCE.total_seconds(), metadata=self._metadata)
        except grpc.RpcError as error:
            raise _problem(error, self._where) from None

    def _with_advice(self, problem: RecordUnavailable, turn_id: str) -> RecordUnavailable:
        # Only an unknown turn justifies a further query; an unavailable sidecar, for example, would fail again.
        if problem.reason != "UNKNOWN_TURN":
            return problem
        newest = [row.turn_id for row in self.turns(pb.ListTurnsRequest(), 5)[0]]
        advice = f"the newest turns: {', '.join(newest)}" if newest else "no turn is recorded yet"
        return RecordUnavailable(
            f"turn {turn_id} is not recorded; {advice}; `sidecar turns` lists more. A turn is recorded from "
            "its first dispatch, or from its end",
            problem.code,
            problem.reason,
        )


def _as_of(answer: Any) -> datetime | None:
    """Return the time up to which a list is complete; None: now."""
    return answer.as_of.ToDatetime(UTC) if answer.HasField("as_of") else None


def _metadata(where: SidecarAddress) -> Sequence[tuple[str, str]]:
    """Return the metadata of every call: the boot secret. Raises `RecordUnavailable` if it cannot be read."""
    if where.boot_secret_file is None:
        return ()
    try:
        secret = from_ascii(where.boot_secret_file.read_bytes()).strip()
    except FileNotFoundError:
        raise RecordUnavailable(
            f"there is no boot secret at {where.boot_secret_file}; the sidecar writes it when it starts: {HOW_TO_FIND}",
            RecordExit.UNAVAILABLE,
        ) from None
    except (OSError, DecodeError) as problem:
        raise RecordUnavailable(
            f"the boot secret cannot be read: {problem}; run this as the sidecar's user", RecordExit.NOT_ALLOWED
        ) from None
    return ((BOOT_SECRET_KEY, secret),)


def _problem(error: Any, where: SidecarAddress) -> RecordUnavailable:
    """Translate a failed call into an error for the operator. `error`: its `grpc.RpcError`, which is a `grpc.Call`."""
    from sidecar.cli.output.grpc_errors import error_info  # noqa: PLC0415  only a call that has failed needs it

    code: grpc.StatusCode = error.code()
    details, reason = error.details() or "", error_info(error).reason
    if code is grpc.StatusCode.UNAVAILABLE and not reason:
        return RecordUnavailable(f"no sidecar answers at {where.target}: {HOW_TO_FIND}", RecordExit.UNAVAILABLE)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return RecordUnavailable(f"the server at {where.target} is no sidecar, or an older one", RecordExit.INTERNAL)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return RecordUnavailable(
            f"the sidecar at {where.target} refused the boot secret: {details}; its file is server.boot_secret_file "
            "of the sidecar's settings (--config, or --boot-secret-file)",
            RecordExit.NOT_ALLOWED,
            reason,
        )
    exit_code = {
        grpc.StatusCode.NOT_FOUND: RecordExit.NOT_FOUND,
        grpc.StatusCode.INVALID_ARGUMENT: RecordExit.USAGE,
        grpc.StatusCode.UNAVAILABLE: RecordExit.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED: RecordExit.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED: RecordExit.UNAVAILABLE,
        grpc.StatusCode.PERMISSION_DENIED: RecordExit.NOT_ALLOWED,
    }.get(code, RecordExit.INTERNAL)
    return RecordUnavailable(f"the sidecar at {where.target}: {details} ({reason or code.name})", exit_code, reason)
