"""Decides which role may call which method of the operators' listener, with one table (DESIGN section 12).

A method without a row in the table is refused for every role.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final, Protocol

from sidecar.core.errors import NotAllowed, RoleRequired, RoleTokenInvalid, Unauthenticated
from sidecar.core.operators.role_tokens import VERSION, Caller, RoleClaims, RoleTokens
from sidecar.core.roles import Role
from sidecar.operations.ports import Clock
from sidecar.rpc.authorisation import Metadata, values_of

ROLE_TOKEN_KEY: Final = "x-subagents-role-token"  # noqa: S105  the name of the header, not a secret

_OPERATOR: Final = frozenset({Role.OPERATOR})
_READ_ROLLOUTS: Final = frozenset({Role.VIEWER, Role.OPERATOR, Role.AUTOMATION})
_READ_PROCESS: Final = frozenset({Role.VIEWER, Role.OPERATOR})
"""For the state of the process and of turns. Pipelines (role `automation`) need to read rollouts only."""
_RAMP: Final = frozenset({Role.OPERATOR, Role.AUTOMATION})
_RAMP_DOWN: Final = frozenset({Role.OPERATOR, Role.AUTOMATION, Role.BREAKER})
_SCORE: Final = frozenset({Role.OPERATOR, Role.AUTOMATION})
"""Pipelines score calls with the role `automation`. The role `breaker` acts on scores, so it must not write them."""
_ANY_ROLE: Final = frozenset(Role)
"""For counts without data of users. The role `breaker` needs them to decide whether to stop a definition."""
_KILL: Final = frozenset({Role.OPERATOR, Role.BREAKER})
_NO_ROLE: Final[frozenset[Role]] = frozenset()

ROLES_OF: Final[Mapping[str, frozenset[Role]]] = MappingProxyType(
    {
        "/subagents.lifecycle.v1.LifecycleService/Transition": _OPERATOR,
        "/subagents.lifecycle.v1.LifecycleService/SetRamp": _RAMP,
        "/subagents.lifecycle.v1.LifecycleService/ConfigureRollout": _OPERATOR,
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
        "/subagents.lifecycle.v1.LifecycleService/GetRollout": _READ_ROLLOUTS,
        "/subagents.lifecycle.v1.LifecycleService/GetFlags": _READ_ROLLOUTS,
        "/subagents.lifecycle.v1.LifecycleService/ListRollouts": _READ_ROLLOUTS,
        "/subagents.lifecycle.v1.LifecycleService/ExplainServing": _READ_ROLLOUTS,
        "/subagents.lifecycle.v1.LifecycleService/PreviewRamp": _READ_ROLLOUTS,
        "/subagents.lifecycle.v1.LifecycleService/WatchAudit": _READ_ROLLOUTS,
        "/subagents.lifecycle.v1.LifecycleService/ListActivePeriods": _READ_ROLLOUTS,
        "/subagents.lifecycle.v1.LifecycleService/ListReplicas": _READ_ROLLOUTS,
        "/subagents.lifecycle.v1.LifecycleService/ListDecommissions": _READ_ROLLOUTS,
        "/subagents.lifecycle.v1.LifecycleService/GetRampEvidence": _ANY_ROLE,
        "/subagents.admin.v1.AdminService/ListPlugins": _READ_PROCESS,
        "/subagents.admin.v1.AdminService/Drain": _OPERATOR,
        "/subagents.admin.v1.AdminService/ForceEndTurn": _OPERATOR,
        "/subagents.admin.v1.AdminService/GetStatus": _READ_PROCESS,
        "/subagents.admin.v1.AdminService/GetTraffic": _READ_PROCESS,
        "/subagents.admin.v1.AdminService/VerifyLog": _READ_PROCESS,
        "/subagents.admin.v1.AdminService/EraseUser": _OPERATOR,
        "/subagents.history.v1.HistoryService/ListTurns": _READ_PROCESS,
        "/subagents.history.v1.HistoryService/GetTurn": _OPERATOR,
        "/subagents.history.v1.HistoryService/WatchEvents": _OPERATOR,
        "/subagents.history.v1.HistoryService/RecordScore": _SCORE,
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": _READ_PROCESS,
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _READ_PROCESS,
    }
)
"""By full method name. `automation` may lower a ramp with `SetRamp`, but not raise it. Which of the two a request does
is known only from the record, so the step checks the role, too.

Flags have a method for each direction, because the role is checked before the request is parsed.
"""


class OperatorReports(Protocol):
    """Receives refusals. Never raises, never waits."""

    def refused(self, method: str, cause: str, caller: Caller | None) -> None:
        """Log and count a refusal.

        Args:
            method: its full name.
            cause: one of `sidecar.core.roles.CAUSES`.
            caller: None unless the token is genuine (see `OperatorAuthoriser`).
        """


class RefusalRecorder(Protocol):
    """Records refusals of genuine tokens (see `OperatorAuthoriser`). Never raises, never waits."""

    def __call__(self, method: str, raw: bytes, caller: Caller, why: str) -> None:
        """Record the refusal in the audit, if the request names a definition; `why` begins with the reason."""


class TokenVerifier(Protocol):
    """Verifies tokens of one kind."""

    def open(self, token: str, now: datetime) -> RoleClaims | Caller:
        """Return the caller. Raises `RoleTokenInvalid`. Never waits."""


class OperatorAuthoriser:
    """Admits calls with a sufficient role token, and reports every refused call.

    Every refusal is logged and counted. The audit of rollouts gets only the refusals of genuine tokens: otherwise
    callers without a token could fill it. A token is genuine if it is valid, or if its signature is valid but its key
    may not grant its claims.

    Args:
        tokens: verifies minted tokens.
        clock: decides whether a token has expired.
        reports: logs and counts refusals.
        note: records refusals in the audit.
        issuer_tokens: verifies tokens of the OIDC issuer; None without one.
    """

    def __init__(
        self,
        tokens: RoleTokens,
        clock: Clock,
        reports: OperatorReports,
        note: RefusalRecorder,
        issuer_tokens: TokenVerifier | None = None,
    ) -> None:
        self._tokens = tokens
        self._issuer_tokens = issuer_tokens
        self._clock = clock
        self._reports = reports
        self._note = note

    def caller(self, method: str, metadata: Metadata, raw: bytes) -> Caller:
        """Return the caller.

        Raises:
            RoleTokenInvalid: the token is missing, repeated, or invalid.
            RoleRequired: its role may not call the method.
        """
        caller: Caller | None = None
        try:
            caller = self._caller_of_token(_token(metadata))
            # The role is checked only when `caller` is set, so that the audit gets this refusal of a valid token.
            _check_role(caller, method)
        except (Unauthenticated, NotAllowed) as refused:
            # If the refusal names a key, the signature is valid, but the claims exceed what this key may grant: the
            # subject must not be trusted.
            key = refused.metadata.get("key", "")
            genuine = caller or (Caller("", None, key=key) if key else None)
            self._reports.refused(method, refused.metadata.get("cause", ""), genuine)
            if genuine is not None:
                self._note(method, raw, genuine, f"{refused.reason}: {refused.message}")
            raise
        return caller

    def _caller_of_token(self, token: str) -> Caller:
        """Return the caller that a token proves. Raises `RoleTokenInvalid`.

        A minted token begins with its version and is verified with the keys, any other one with the issuer's.
        """
        # The form decides. If both verifiers were tried, an invalid token would be refused with the reason of the
        # verifier of the other kind.
        verifier: TokenVerifier = self._tokens
        if self._issuer_tokens is not None and not token.startswith(f"{VERSION}."):
            verifier = self._issuer_tokens
        # Both kinds of token give the same four values; an issuer's token has the URL of the issuer as its key.
        claims = verifier.open(token, self._clock.now())
        return Caller(claims.sub, claims.role, claims.jti, claims.key)


def _check_role(caller: Caller, method: str) -> None:
    """Look the method up in the table. Raises `RoleRequired`."""
    # A new method is closed to every role until it has a row.
    allowed = ROLES_OF.get(method, _NO_ROLE)
    if caller.role not in allowed:
        roles = ", ".join(sorted(allowed)) or "none"
        raise RoleRequired(
            f"the role {caller.role} may not call {method.rpartition('/')[2][:60]}; it takes: {roles}",
            metadata={"cause": "role", "roles": roles},
        )


def _token(metadata: Metadata) -> str:
    """Return the role token in the metadata, not verified. Raises `RoleTokenInvalid`."""
    given = values_of(metadata, ROLE_TOKEN_KEY)
    # As for boot secret and grant: with several values it would be unclear which of them counts.
    if len(given) != 1:
        cause = "repeated" if given else "missing"
        raise RoleTokenInvalid(
            f"send a role token as metadata {ROLE_TOKEN_KEY}, exactly once; `sidecar token mint` makes one",
            metadata={"cause": cause},
        )
    # With bytes that are not ASCII the token is invalid; the call must not fail with an internal error.
    return given[0].decode("ascii", "replace")
