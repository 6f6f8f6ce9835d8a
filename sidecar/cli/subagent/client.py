"""Asks a running sidecar's `LifecycleService` and `AdminService`, over its operator listener, with a role token."""

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum, unique
from types import TracebackType
from typing import Any, Final, Self

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status

from sidecar.cli.subagent.advice import HOW_TO_MINT, advice_for
from subagents.admin.v1.admin_pb2_grpc import AdminServiceStub
from subagents.lifecycle.v1 import reading_pb2 as pb
from subagents.lifecycle.v1.lifecycle_pb2_grpc import LifecycleServiceStub

ROLE_TOKEN_KEY: Final = "x-subagents-role-token"  # noqa: S105  the name of the header, not a secret
READING: Final = 10.0
"""Seconds for an answer that changes nothing."""
STEPPING: Final = 120.0
"""Seconds for a step: policies and several gates, each with a time-out of its own at the sidecar."""
STOPPING: Final = 10.0
"""Seconds for a kill, a ramp-down or a roll-back: these wait for no gate."""
NEAR: Final = re.compile(r"unix:|(dns:///)?(localhost|127\.[0-9.]+|\[::1\]):[0-9]+\Z")
"""Where a token may go: nothing here encrypts it."""
NO_PROXY: Final = (("grpc.enable_http_proxy", 0),)
"""The environment may name a proxy, and gRPC would send even loopback addresses there, token and all."""
HOW_TO_FIND: Final = (
    "start one with `operators.keys` or `operators.issuer` in its settings, or say where its operator listener is with "
    "--config, or with --target unix:<operators.socket>"
)


@unique
class OperatorExit(IntEnum):
    """What the commands end with."""

    DONE = 0
    REFUSED = 1
    NOT_ASKED = 2
    PARTIAL = 3


@dataclass(frozen=True, slots=True)
class Where:
    """Which sidecars, as gRPC names them, and the role token. All commands but `kill` ask the first."""

    targets: tuple[str, ...]
    token: str


class CannotOperate(Exception):
    """It was refused, or could not be asked; the message says what, why, and what to do.

    Attributes:
        said: what, and why.
        advice: what to do; empty: that has been said.
        code: what the command ends with.
        reason: of `ErrorInfo`; empty if no sidecar said one.
        uncertain: whether a step may have been taken even so.
    """

    def __init__(
        self, said: str, code: OperatorExit, reason: str = "", *, advice: str = "", uncertain: bool = False
    ) -> None:
        super().__init__(f"{said}\nnext: {advice}" if advice else said)
        self.said = said
        self.advice = advice
        self.code = code
        self.reason = reason
        self.uncertain = uncertain

    @property
    def spoken(self) -> dict[str, Any]:
        """The same for programs; `reason` is that of `ErrorInfo`."""
        return {"message": self.said, "reason": self.reason, "next": self.advice, "uncertain": self.uncertain}


class OperatorClient(AbstractContextManager["OperatorClient"]):
    """One connection to one sidecar.

    Raises:
        CannotOperate: by every method, and here if there is no token, or it would travel in the open.
    """

    def __init__(self, target: str, token: str) -> None:
        self.target = target
        if not token:
            raise CannotOperate(f"there is no role token: {HOW_TO_MINT}", OperatorExit.NOT_ASKED)
        if not NEAR.match(target):
            raise CannotOperate(
                f"{target} is neither a Unix socket nor a loopback address, and the token would travel in the open; "
                "forward the socket, e.g. `ssh -L /run/a.sock:<operators.socket> host` for --target unix:/run/a.sock",
                OperatorExit.NOT_ASKED,
            )
        self._metadata = ((ROLE_TOKEN_KEY, token),)
        self._channel = grpc.insecure_channel(target, NO_PROXY)
        make_stubs: Any = (LifecycleServiceStub, AdminServiceStub)  # typed for asyncio only; work for both
        self._stub, self._admin = (make(self._channel) for make in make_stubs)

    def __enter__(self) -> Self:
        """Connect when first needed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._channel.close()

    def ask(self, method: str, request: Message, name: str = "", seconds: float = READING) -> Any:
        """Return the answer; `name` is the sub-agent that advice is about."""
        return self.answer_of(self.begin(method, request, seconds), name)

    def begin(self, method: str, request: Message, seconds: float) -> Any:
        """Send a request, and return at once what `answer_of` takes."""
        stub = self._stub if hasattr(self._stub, method) else self._admin
        return getattr(stub, method).future(request, timeout=seconds, metadata=self._metadata)

    def answer_of(self, call: Any, name: str = "") -> Any:
        """Wait for the answer of what was begun."""
        try:
            return call.result()
        except grpc.RpcError as error:
            raise self._problem(error, name) from None

    def status(self, name: str) -> pb.SlotStatus:
        """Return the rollout of a slot, or the one that has a definition of that id."""
        status: pb.SlotStatus = self.ask("GetRollout", pb.GetRolloutRequest(slot=name), name).status
        return status

    def audit(self, request: pb.WatchAuditRequest) -> Iterator[Sequence[Any]]:
        """Yield rows of the audit, some at a time, as they come."""
        try:
            for message in self._stub.WatchAudit(request, metadata=self._metadata):
                yield message.rows
        except grpc.RpcError as error:
            raise self._problem(error, request.definition_id or request.slot) from None

    def messages(self, method: str, request: Message, seconds: float) -> Iterator[Any]:
        """Yield the messages of an answer as they come."""
        try:
            yield from getattr(self._admin, method)(request, timeout=seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._problem(error, "") from None

    def _problem(self, error: Any, name: str) -> CannotOperate:
        """Return what a failed call means for whoever typed the command; every such error is a `grpc.Call`, too."""
        code: grpc.StatusCode = error.code()
        info = _info(error)
        if code is grpc.StatusCode.UNAVAILABLE and not info.reason:
            return CannotOperate(
                f"no sidecar answers at {self.target}: {HOW_TO_FIND}", OperatorExit.NOT_ASKED, uncertain=True
            )
        if code is grpc.StatusCode.UNIMPLEMENTED:
            said = f"what answers at {self.target} serves no operators; {HOW_TO_FIND}"
            return CannotOperate(said, OperatorExit.NOT_ASKED)
        return CannotOperate(
            f"{error.details() or code.name.lower()} ({info.reason or code.name})",
            OperatorExit.REFUSED if code in REFUSING else OperatorExit.NOT_ASKED,
            info.reason,
            advice=advice_for(info.reason, info.metadata, name),
            uncertain=code not in REFUSING | SURELY_NOT,
        )


REFUSING: Final = frozenset(
    {
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.NOT_FOUND,
    }
)
"""The sidecar understood, looked, and said no."""
SURELY_NOT: Final = frozenset(
    {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
)
"""It did not look."""


def _info(error: Any) -> ErrorInfo:
    status, info = rpc_status.from_call(error), ErrorInfo()
    details: Sequence[Any] = status.details if status else ()
    for detail in details:
        if detail.Unpack(info):
            break
    return info
