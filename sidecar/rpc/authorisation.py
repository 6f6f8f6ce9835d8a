"""Decides which kind of caller may call which method, with one table, before a request is parsed (DESIGN section 12).

Each listener has one kind of caller. A method without a row in the table is refused for every caller.
"""

import hmac
from collections.abc import Iterable, Mapping
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Any, Final, Protocol

from msgspec import Struct

from sidecar.core.decoding import from_ascii
from sidecar.core.errors import BootSecretWrong, CallerNotAllowed, GrantInvalid, RoleTokenInvalid, WrongListener
from sidecar.core.operators.role_tokens import Caller

BOOT_SECRET_KEY: Final = "x-subagents-boot-secret"  # noqa: S105  the name of the header, not a secret
GRANT_KEY: Final = "x-subagents-grant"


@unique
class CallerKind(StrEnum):
    """The kind of client at a listener."""

    CONSUMER_AGENT = "consumer_agent"
    RUNNER_HOST = "runner_host"
    OPERATOR = "operator"
    """A client with a role token; `rpc/operators.py` says which role may do what."""
    OPS = "ops"


# Sets and not single kinds: a few methods have two kinds of callers.
_CONSUMER_AGENT: Final = frozenset({CallerKind.CONSUMER_AGENT})
_RUNNER_HOST: Final = frozenset({CallerKind.RUNNER_HOST})
_OPERATOR: Final = frozenset({CallerKind.OPERATOR})
_AGENT_AND_OPERATOR: Final = _CONSUMER_AGENT | _OPERATOR
_ANY_CALLER: Final = frozenset(CallerKind)
_NO_CALLER: Final[frozenset[CallerKind]] = frozenset()

CALLERS_OF: Final[Mapping[str, frozenset[CallerKind]]] = MappingProxyType(
    {
        "/subagents.dispatch.v1.DispatchService/BindTurn": _CONSUMER_AGENT,
        "/subagents.dispatch.v1.DispatchService/Dispatch": _CONSUMER_AGENT,
        "/subagents.dispatch.v1.DispatchService/DispatchUnary": _CONSUMER_AGENT,
        "/subagents.dispatch.v1.DispatchService/ResumeDispatch": _CONSUMER_AGENT,
        "/subagents.dispatch.v1.DispatchService/CancelCall": _CONSUMER_AGENT,
        "/subagents.dispatch.v1.DispatchService/CloseChild": _CONSUMER_AGENT,
        "/subagents.dispatch.v1.DispatchService/EndTurn": _CONSUMER_AGENT,
        "/subagents.dispatch.v1.DispatchService/Session": _CONSUMER_AGENT,
        "/subagents.history.v1.HistoryService/ReadEpisode": _CONSUMER_AGENT,
        "/subagents.history.v1.HistoryService/WriteSummary": _CONSUMER_AGENT,
        "/subagents.history.v1.HistoryService/ListTurns": _AGENT_AND_OPERATOR,
        "/subagents.history.v1.HistoryService/GetTurn": _AGENT_AND_OPERATOR,
        "/subagents.history.v1.HistoryService/WatchEvents": _AGENT_AND_OPERATOR,
        "/subagents.history.v1.HistoryService/ListEpisodes": _CONSUMER_AGENT,
        "/subagents.history.v1.HistoryService/ExportReplay": _CONSUMER_AGENT,
        "/subagents.history.v1.HistoryService/RecordScore": _AGENT_AND_OPERATOR,
        "/subagents.tools.v1.ToolGatewayService/CallTool": _RUNNER_HOST,
        "/subagents.tools.v1.ToolGatewayService/ReadOwnTurns": _RUNNER_HOST,
        "/subagents.tools.v1.ToolGatewayService/Delegate": _RUNNER_HOST,
        "/subagents.lifecycle.v1.LifecycleService/Transition": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/SetRamp": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/ConfigureRollout": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/RampDown": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/AcknowledgeBreach": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/OverrideGate": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/RollBack": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/Activate": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/Kill": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/RetireFlags": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/SwitchFlagOn": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/SwitchCohortFlagOff": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/SwitchKillFlagOff": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/BeginDecommission": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/TakeDecommissionStep": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/DecideDecommission": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/UndoDecommission": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/GetRollout": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/GetFlags": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/ListRollouts": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/ExplainServing": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/PreviewRamp": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/WatchAudit": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/ListActivePeriods": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/ListReplicas": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/ListDecommissions": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/GetRampEvidence": _OPERATOR,
        "/subagents.admin.v1.AdminService/ListPlugins": _OPERATOR,
        "/subagents.admin.v1.AdminService/Drain": _OPERATOR,
        "/subagents.admin.v1.AdminService/ForceEndTurn": _OPERATOR,
        "/subagents.admin.v1.AdminService/GetStatus": _OPERATOR,
        "/subagents.admin.v1.AdminService/GetTraffic": _OPERATOR,
        "/subagents.admin.v1.AdminService/VerifyLog": _OPERATOR,
        "/subagents.admin.v1.AdminService/EraseUser": _OPERATOR,
        "/subagents.envelope.v1.EnricherService/Enrich": _NO_CALLER,
        "/subagents.runner.v1.SubAgentRunnerService/Run": _NO_CALLER,
        "/subagents.runner.v1.SubAgentRunnerService/Describe": _NO_CALLER,
        "/grpc.health.v1.Health/Check": _ANY_CALLER,
        "/grpc.health.v1.Health/List": _ANY_CALLER,
        "/grpc.health.v1.Health/Watch": _ANY_CALLER,
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": _ANY_CALLER,
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _ANY_CALLER,
    }
)
"""By full method name. A row without callers: the sidecar calls this method and does not serve it."""

WITHOUT_SECRET: Final = frozenset(
    {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List", "/grpc.health.v1.Health/Watch"}
)
"""Health checks need no boot secret: a probe cannot know it, and learns only whether the process accepts work."""

Metadata = Iterable[tuple[str, str | bytes]]


class ListenerAuthoriser(Protocol):
    """Authenticates the caller of each operator method."""

    def caller(self, method: str, metadata: Metadata, raw: bytes) -> Caller:
        """Return the caller; `raw` is the unparsed request. Raises `RoleTokenInvalid`, `RoleRequired`."""


class AdmittedPeer(Protocol):
    """A caller over TLS, or at the socket of a group of hosts; see `rpc/peers.py`."""

    def check_grant_of(self, slot: str, vertical: str) -> None:
        """Refuse the grant of a sub-agent that this peer may not act for. Raises `CallerNotAllowed`."""


class PeerAuthoriser(Protocol):
    """Decides which peers may call a listener; see `rpc/peers.py`."""

    def admit(self, auth: Any) -> AdmittedPeer:
        """Return the peer of a TLS handshake, as gRPC describes it. Raises `CallerNotAllowed`."""


class CallAdmission(Struct, frozen=True):
    """The admission rules of one listener.

    Attributes:
        callers: the kind of its clients.
        boot_secret: every call must carry it; empty: none is required.
        door: authenticates operators; None: the operators' listener refuses every call.
        peers: over TLS, the identities that may call; at the socket of a group, its hosts; None: the directory of the
            socket alone decides.
    """

    callers: CallerKind
    boot_secret: str = ""
    door: ListenerAuthoriser | None = None
    peers: PeerAuthoriser | None = None

    def __repr__(self) -> str:
        """Omit the secret."""
        return f"{type(self).__name__}({self.callers})"


def admit(method: str, metadata: Metadata, entrance: CallAdmission) -> str:
    """Admit a call, or raise. Returns its grant; empty if the method needs none.

    Raises:
        WrongListener, CallerNotAllowed: the table does not allow this method for the listener's callers.
        BootSecretWrong, GrantInvalid: the secret or the grant is missing, repeated or wrong.
    """
    # The table first, then secrets: a wrong listener gets its reason without a secret being compared.
    allowed = CALLERS_OF.get(method, _NO_CALLER)
    if entrance.callers not in allowed:
        if allowed:
            raise WrongListener(
                f"{method[:200]} is not served on this listener; use the one for {_kind_names(allowed)}"
            )
        raise CallerNotAllowed(f"{method[:200]} may not be called here")
    if entrance.boot_secret and method not in WITHOUT_SECRET:
        _check_secret(metadata, entrance.boot_secret)
    # Only read here, not verified: the operation looks it up, and so sees an attempt that ended meanwhile.
    return _grant(metadata) if allowed == _RUNNER_HOST else ""


def caller_of(method: str, metadata: Metadata, raw: bytes, entrance: CallAdmission) -> Caller | None:
    """Return the caller of an admitted call; None if the listener does not distinguish callers.

    Raises:
        RoleTokenInvalid: the token is missing or invalid, or the listener has no keys to verify it.
        RoleRequired: its role may not call the method.
    """
    # The other listeners have one kind of caller and no names. Health probes have no token.
    if entrance.callers is not CallerKind.OPERATOR or method in WITHOUT_SECRET:
        return None
    # Refused and not let through: a listener without keys must not be open.
    if entrance.door is None:
        raise RoleTokenInvalid("no operator keys are configured (operators.keys)", metadata={"cause": "no_keys"})
    return entrance.door.caller(method, metadata, raw)


def _kind_names(kinds: frozenset[CallerKind]) -> str:
    return ", ".join(sorted(kinds))


def _check_secret(metadata: Metadata, expected: str) -> None:
    given = values_of(metadata, BOOT_SECRET_KEY)
    # Exactly one value: with several, e.g. one that a proxy appended, it would be unclear which of them counts. The
    # comparison takes the same time for every wrong secret, so its duration tells nothing about the right one.
    if len(given) != 1 or not hmac.compare_digest(given[0], expected.encode()):
        raise BootSecretWrong(f"send the sidecar's boot secret as metadata {BOOT_SECRET_KEY}, exactly once")


def _grant(metadata: Metadata) -> str:
    """Return the grant in the metadata, not verified. Raises `GrantInvalid`."""
    given = values_of(metadata, GRANT_KEY)
    # Exactly one: a proxy that appends a second grant must not decide which of them counts.
    if len(given) != 1 or not given[0].isascii():
        raise GrantInvalid(f"send the grant of the attempt as metadata {GRANT_KEY}, exactly once")
    return from_ascii(given[0])


def values_of(metadata: Metadata, key: str) -> list[bytes]:
    """Return every value that was sent under a key."""
    return [value.encode() if isinstance(value, str) else value for name, value in metadata if name == key]
