"""The client of operators' commands: calls a running sidecar over its operators' listener, with a role token."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum, unique
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc
from google.protobuf.message import Message

from sidecar.cli.parameters.targets import NO_PROXY, refusal
from sidecar.cli.subagent.advice import HOW_TO_MINT, advice_for
from subagents.lifecycle.v1 import reading_pb2 as pb

ROLE_TOKEN_KEY: Final = "x-subagents-role-token"  # noqa: S105  the name of the header, not a secret
SERVICES: Final = {
    "subagents.lifecycle.v1": "LifecycleService",
    "subagents.admin.v1": "AdminService",
    "subagents.history.v1": "HistoryService",  # for scores
}
"""The services by the package of their requests."""
READING: Final = 10.0
"""Seconds for a read."""
STEPPING: Final = 120.0
"""Seconds for a step of a rollout. The sidecar asks policies and several gates, each with its own timeout."""
STOPPING: Final = 10.0
"""Seconds for a kill, a ramp-down or a rollback, which need no gate."""
HOW_TO_FIND: Final = (
    "start one with `operators.keys` or `operators.issuer` in its settings, or give the address of its operator "
    "listener with "
    "--config, or with --target unix:<operators.socket>"
)


@unique
class OperatorExit(IntEnum):
    """Exit codes of the operator commands."""

    DONE = 0
    REFUSED = 1
    """The sidecar examined the request and refused it."""
    NOT_ASKED = 2
    """The request was not sent, or its sender was refused: no sidecar, no token, wrong role, invalid arguments."""
    PARTIAL = 3
    """Done in part, e.g. a replica does not show the change yet, or the step is not recorded yet."""


@dataclass(frozen=True, slots=True)
class SidecarAddress:
    """The gRPC targets of the sidecars, and the credentials. All commands except `kill` use only the first target.

    Attributes:
        token: the role token.
        tls: folder with `ca.crt`, `tls.crt` and `tls.key`; None: connections are not encrypted.
    """

    targets: tuple[str, ...]
    token: str
    tls: Path | None = None


class CannotOperate(Exception):
    """A command was refused or could not be sent. The message names the problem, its cause and the next action.

    Attributes:
        message: the problem and its cause.
        advice: the next action; empty if the message contains it.
        code: the exit code of the command.
        reason: the reason in `google.rpc.ErrorInfo`; empty if no sidecar sent one.
        uncertain: whether the step may have been taken nevertheless, e.g. because the answer was lost.
    """

    def __init__(
        self, message: str, code: OperatorExit, reason: str = "", *, advice: str = "", uncertain: bool = False
    ) -> None:
        super().__init__(f"{message}\nnext: {advice}" if advice else message)
        self.message = message
        self.advice = advice
        self.code = code
        self.reason = reason
        self.uncertain = uncertain

    @property
    def as_object(self) -> dict[str, Any]:
        """The error for `--json`; `reason` is that of `ErrorInfo`."""
        return {"message": self.message, "reason": self.reason, "next": self.advice, "uncertain": self.uncertain}


class OperatorClient(AbstractContextManager["OperatorClient"]):
    """One connection to one sidecar.

    Raises:
        CannotOperate: by every method, and here if there is no token, certificates cannot be used, or the token would
            be sent unencrypted.
    """

    def __init__(self, where: SidecarAddress, target: str) -> None:
        self.target = target
        # Every request without a token would be refused.
        if not where.token:
            raise CannotOperate(f"there is no role token: {HOW_TO_MINT}", OperatorExit.NOT_ASKED)
        # Before the channel exists, so that no code path can send the token to a refused address.
        check_target(target, where.tls)
        self._metadata = ((ROLE_TOKEN_KEY, where.token),)
        self._channel = _channel(target, where.tls)

    def __enter__(self) -> Self:
        """Connect when first needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._channel.close()

    def ask(self, method: str, request: Message, name: str = "", seconds: float = READING) -> Any:
        """Return the answer to a request. `name`: the sub-agent that the advice mentions."""
        return self.answer_of(self.begin(method, request, seconds), name)

    def ask_all(self, method: str, request: Any, rows: str, name: str = "") -> Any:
        """Return the answer of a `List` method, with the rows of all pages in its repeated field `rows`."""
        page = whole = self.ask(method, request, name)
        while page.next_page_token:
            # The caller's message is changed: it must not be used for another call afterwards.
            request.page_token = page.next_page_token
            page = self.ask(method, request, name)
            # Only the rows: the other fields of the answer are those of the first page.
            getattr(whole, rows).MergeFrom(getattr(page, rows))
        return whole

    def begin(self, method: str, request: Message, seconds: float) -> Any:
        """Send a request and return the call for `answer_of` without waiting."""
        rpc = _method(self._channel.unary_unary, method, request)
        return rpc.future(request, timeout=seconds, metadata=self._metadata)

    def answer_of(self, call: Any, name: str = "") -> Any:
        """Wait for the answer of a call that `begin` returned."""
        try:
            return call.result()
        except grpc.RpcError as error:
            raise problem_of(error, self.target, name) from None

    def rollouts(self) -> pb.ListRolloutsResponse:
        """Return all rollouts. While the store is unavailable: what this replica serves, with `replica_view` set."""
        answer: pb.ListRolloutsResponse = self.ask_all(
            "ListRollouts", pb.ListRolloutsRequest(or_replica_view=True), "slots"
        )
        return answer

    def status(self, name: str) -> pb.SlotStatus:
        """Return the rollout of a slot, named by its slot or by the id of a definition in it."""
        status: pb.SlotStatus = self.ask("GetRollout", pb.GetRolloutRequest(slot=name), name).status
        return status

    def audit(self, request: pb.WatchAuditRequest) -> Iterator[Sequence[Any]]:
        """Yield rows of the audit in batches as they arrive."""
        try:
            rpc = _method(self._channel.unary_stream, "WatchAudit", request)
            # Without a deadline: an operator may follow the audit for hours.
            for message in rpc(request, metadata=self._metadata):
                yield message.rows
        # Raised while the caller iterates, because a stream fails only when it is read.
        except grpc.RpcError as error:
            raise problem_of(error, self.target, request.definition_id or request.slot) from None

    def messages(self, method: str, request: Message, seconds: float) -> Iterator[Any]:
        """Yield the messages of a streamed answer as they arrive."""
        try:
            rpc = _method(self._channel.unary_stream, method, request)
            yield from rpc(request, timeout=seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            raise problem_of(error, self.target, "") from None


def _method(make: Callable[..., Any], method: str, request: Message) -> Any:
    """Return a callable for the RPC `method`; `make` is a channel's `unary_unary` or `unary_stream`.

    Made here and not taken from the generated stubs, whose import would load the messages of all RPCs and take much of
    a command's time. The service follows from the package of the request, and the answer from the method's name.
    """
    kind = type(request)
    package = kind.DESCRIPTOR.file.package
    # In the module of the request, because a .proto file of this project contains both messages of an RPC.
    answer = getattr(sys.modules[kind.__module__], f"{method}Response")
    return make(
        f"/{package}.{SERVICES[package]}/{method}",
        request_serializer=kind.SerializeToString,
        response_deserializer=answer.FromString,
    )


def problem_of(error: Any, target: str, name: str) -> CannotOperate:
    """Translate a failed call into an error for the operator.

    Args:
        error: the `grpc.RpcError` of the call; it is a `grpc.Call`, too, so it has the code and the metadata.
        target: the address that was called.
        name: the sub-agent that the advice mentions; empty: none.
    """
    from sidecar.cli.output.grpc_errors import error_info  # noqa: PLC0415  only a call that has failed needs it

    code: grpc.StatusCode = error.code()
    info = error_info(error)
    # With a reason, a sidecar has sent the status itself, e.g. because its store is unavailable.
    if code is grpc.StatusCode.UNAVAILABLE and not info.reason:
        # Uncertain, because gRPC also reports a connection that broke after the request was sent as UNAVAILABLE.
        message = f"no sidecar answers at {target}: {HOW_TO_FIND}"
        return CannotOperate(message, OperatorExit.NOT_ASKED, uncertain=True)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        message = f"the server at {target} has no operator service; {HOW_TO_FIND}"
        return CannotOperate(message, OperatorExit.NOT_ASKED)
    return CannotOperate(
        f"{error.details() or code.name.lower()} ({info.reason or code.name})",
        OperatorExit.REFUSED if code in REFUSING else OperatorExit.NOT_ASKED,
        info.reason,
        advice=advice_for(info.reason, info.metadata, name),
        # Any other code, e.g. of a lost connection or a deadline, leaves open whether the step was taken.
        uncertain=code not in REFUSING | SURELY_NOT,
    )


def channel_credentials(tls: Path) -> grpc.ChannelCredentials:
    """Return the credentials of a folder with `ca.crt`, `tls.crt` and `tls.key`. Raises `CannotOperate`."""
    from subagents_tls.files import TlsFiles, TlsFilesProblem, WatchedFiles  # noqa: PLC0415  most commands need none

    try:
        files = TlsFiles(ca_file=tls / "ca.crt", certificate_file=tls / "tls.crt", key_file=tls / "tls.key")
        contents = WatchedFiles(files).current()
    except TlsFilesProblem as problem:
        raise CannotOperate(f"--tls: {problem}", OperatorExit.NOT_ASKED) from None
    return grpc.ssl_channel_credentials(contents.ca, contents.key, contents.certificate)


def check_target(target: str, tls: Path | None) -> None:
    """Refuse an address to which a token would be sent unencrypted. Raises `CannotOperate`."""
    if tls is None and (problem := refusal(target, "token")):
        raise CannotOperate(
            f"{problem}; give certificates with --tls, or forward the socket, e.g. `ssh -L "
            "/run/a.sock:<operators.socket> host` for --target unix:/run/a.sock",
            OperatorExit.NOT_ASKED,
        )


def _channel(target: str, tls: Path | None) -> grpc.Channel:
    # A Unix socket needs no certificate: its directory decides who connects.
    if tls is None or target.startswith("unix:"):
        return grpc.insecure_channel(target, NO_PROXY)
    return grpc.secure_channel(target, channel_credentials(tls), NO_PROXY)


REFUSING: Final = frozenset(
    {
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.NOT_FOUND,
    }
)
"""Status codes with which a sidecar refuses a request that it has examined."""
SURELY_NOT: Final = frozenset(
    {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
)
"""Status codes with which a sidecar rejects a request before it examines the rollout: the step was not taken."""
