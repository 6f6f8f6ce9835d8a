"""Counts and logs refusals on the operators' listener."""

from collections.abc import Sequence

from sidecar.core.operators.role_tokens import Caller
from sidecar.core.roles import CAUSES
from sidecar.observability import event_names, names
from sidecar.observability.logging import ALWAYS, StructuredLog
from sidecar.observability.metrics import Metrics


class RefusalReports:
    """Counts and logs refusals. Never raises, never waits.

    Args:
        metrics: of the process.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._log = StructuredLog("sidecar.operators")
        self._refused = metrics.counter(names.OPERATORS_REFUSED, "Calls of operators that were not let in.", "cause")
        for cause in CAUSES:
            # So that the first refusal is a rise from 0, which alerts can see.
            self._refused.add(cause, by=0)

    def refused(self, method: str, cause: str, caller: Caller | None) -> None:
        """Count and log a refusal. `caller` is None unless the token, or at least its key, was genuine."""
        self._refused.add(cause)
        self._log.warning(
            event_names.OPERATOR_REFUSED,
            "a call of an operator was not let in",
            method=method,
            cause=cause,
            subject=caller.sub if caller else "",
            token_id=caller.jti if caller else "",
            key=caller.key if caller else "",
        )

    def keys_without_limits(self, keys: Sequence[str]) -> None:
        """Warn of unrestricted keys although other keys are restricted."""
        self._log.warning(
            event_names.OPERATOR_KEYS_UNRESTRICTED,
            "the holder of one of these keys can act as any subject in any role, whatever the limits of the other "
            "keys are; give each of these keys its limits, too ([operators.key.<name>])",
            keys=list(keys),
        )


def report_ended_turn(turn_id: str, by: str, reason: str) -> None:
    """Log that an operator ends a turn. The turn's routing decision has the result."""
    StructuredLog(ALWAYS).info(
        event_names.TURN_ENDED_BY_OPERATOR, "an operator ends a turn", turn_id=turn_id, subject=by, reason=reason
    )


def report_erasure(by: str, reason: str) -> None:
    """Log that an operator erases the content of a user, but not the user: a log is not erased."""
    StructuredLog(ALWAYS).info(
        event_names.USER_ERASED_BY_OPERATOR, "an operator erases the content of a user", subject=by, reason=reason
    )
