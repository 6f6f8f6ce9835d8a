"""Who may do what on the operator listener: one table from methods to roles, default deny (DESIGN section 12)."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, Protocol

from sidecar.core.errors import NotAllowed, RoleRequired, RoleTokenInvalid, Unauthenticated
from sidecar.core.operators.role_tokens import VERSION, Caller, RoleClaims, RoleTokens
from sidecar.core.operators.roles import Role
from sidecar.operations.ports import Clock
from sidecar.rpc.authorisation import Metadata, values_of

ROLE_TOKEN_KEY: Final = "x-subagents-role-token"  # noqa: S105  the name of the header, not a secret

_OPERATOR: Final = frozenset({Role.OPERATOR})
_READ: Final = frozenset({Role.VIEWER, Role.OPERATOR, Role.AUTOMATION})
_LOOK_INSIDE: Final = frozenset({Role.VIEWER, Role.OPERATOR})
_RAMP: Final = frozenset({Role.OPERATOR, Role.AUTOMATION})
_RAMP_DOWN: Final = frozenset({Role.OPERATOR, Role.AUTOMATION, Role.BREAKER})
_KILL: Final = frozenset({Role.OPERATOR, Role.BREAKER})
_NOBODY: Final[frozenset[Role]] = frozenset()

ROLES_OF: Final[Mapping[str, frozenset[Role]]] = MappingProxyType(
    {
        "/subagents.lifecycle.v1.LifecycleService/Transition": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/SetRamp": _RAMP,
        "/subagents.lifecycle.v1.LifecycleService/Configure": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/RampDown": _RAMP_DOWN,
        "/subagents.lifecycle.v1.LifecycleService/AcknowledgeBreach": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/OverrideGate": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/RollBack": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/Activate": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/Kill": _KILL,
        "/subagents.lifecycle.v1.LifecycleService/RetireFlags": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/SwitchFlagOn": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/SwitchCohortFlagOff": _RAMP_DOWN,
        "/subagents.lifecycle.v1.LifecycleService/SwitchKillFlagOff": _KILL,
        "/subagents.lifecycle.v1.LifecycleService/BeginDecommission": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/TakeDecommissionStep": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/DecideDecommission": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/UndoDecommission": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/Get": _READ,
        "/subagents.lifecycle.v1.LifecycleService/GetFlags": _READ,
        "/subagents.lifecycle.v1.LifecycleService/List": _READ,
        "/subagents.lifecycle.v1.LifecycleService/Explain": _READ,
        "/subagents.lifecycle.v1.LifecycleService/PreviewRamp": _READ,
        "/subagents.lifecycle.v1.LifecycleService/WatchAudit": _READ,
        "/subagents.lifecycle.v1.LifecycleService/ListActivePeriods": _READ,
        "/subagents.lifecycle.v1.LifecycleService/Replicas": _READ,
        "/subagents.lifecycle.v1.LifecycleService/ListDecommissions": _READ,
        "/subagents.admin.v1.AdminService/ListPlugins": _LOOK_INSIDE,
        "/subagents.admin.v1.AdminService/Drain": _OPERATOR,
        "/subagents.admin.v1.AdminService/GetStatus": _LOOK_INSIDE,
        "/subagents.admin.v1.AdminService/VerifyLog": _LOOK_INSIDE,
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _LOOK_INSIDE,
    }
)
"""By full method name. A person acknowledges a breach: automation that raises ramps must not clear its own way.
Flags have a method for each direction, because the roles of a method are judged before its contents are read."""


class OperatorReports(Protocol):
    """Where refusals go. Never raises, never waits."""

    def refused(self, method: str, cause: str, subject: str, token_id: str) -> None:
        """Log and count a refusal; `cause` is one of `CAUSES`, subject and token id are those of a genuine token."""
        ...


class OpensTokens(Protocol):
    """Knows what a token of some kind says."""

    def open(self, token: str, now: datetime) -> RoleClaims | Caller:
        """Return who calls. Raises `RoleTokenInvalid`. Never waits."""
        ...


class OperatorDoor:
    """Lets calls with a fitting role token in, and reports each that is refused.

    Refusals go to log and counter and not to the audit of rollouts: whoever has no token could fill that otherwise.
    """

    def __init__(
        self, tokens: RoleTokens, clock: Clock, reports: OperatorReports, issuer: OpensTokens | None = None
    ) -> None:
        """Join the parts; `issuer` opens whatever is no minted token."""
        self._tokens = tokens
        self._issuer = issuer
        self._clock = clock
        self._reports = reports

    def subject(self, method: str, metadata: Metadata) -> str:
        """Return who calls.

        Raises:
            RoleTokenInvalid: the token is missing, repeated, or does not hold.
            RoleRequired: its role may not call the method.
        """
        subject, token_id = "", ""
        try:
            claims = self._opened(_token(metadata))
            subject, token_id = claims.sub, claims.jti
            allowed = ROLES_OF.get(method, _NOBODY)
            if claims.role not in allowed:
                roles = ", ".join(sorted(allowed)) or "none"
                raise RoleRequired(
                    f"the role {claims.role} may not call {method.rpartition('/')[2][:60]}; it takes: {roles}",
                    metadata={"cause": "role", "roles": roles},
                )
        except (Unauthenticated, NotAllowed) as refused:
            self._reports.refused(method, refused.metadata.get("cause", ""), subject, token_id)
            raise
        return subject

    def _opened(self, token: str) -> RoleClaims | Caller:
        """Have a token opened by who made it: a minted one says what it is in its first letters."""
        minted = self._issuer is None or token.startswith(f"{VERSION}.")
        opens: OpensTokens = self._tokens if minted or self._issuer is None else self._issuer
        return opens.open(token, self._clock.now())


def _token(metadata: Metadata) -> str:
    given = values_of(metadata, ROLE_TOKEN_KEY)
    if len(given) != 1:
        cause = "repeated" if given else "missing"
        raise RoleTokenInvalid(
            f"send a role token as metadata {ROLE_TOKEN_KEY}, exactly once; `sidecar token mint` makes one",
            metadata={"cause": cause},
        )
    return given[0].decode("ascii", "replace")
