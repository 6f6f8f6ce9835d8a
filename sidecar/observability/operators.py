"""Refusals on the operators' listener: each is counted, and each is a line of the log."""

from sidecar.core.operators.roles import CAUSES
from sidecar.observability import names
from sidecar.observability.logging import StructuredLog
from sidecar.observability.metrics import Metrics


class RefusalReports:
    """Counts and logs. Never raises, never waits.

    Args:
        metrics: where the counter is kept.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._log = StructuredLog("sidecar.operators")
        self._refused = metrics.counter(names.OPERATORS_REFUSED, "Calls of operators that were not let in.", "cause")
        for cause in CAUSES:
            self._refused.add(cause, by=0)

    def refused(self, method: str, cause: str, subject: str, token_id: str) -> None:
        """Take note of a refusal; `subject` and `token_id` are empty unless the token was genuine."""
        self._refused.add(cause)
        self._log.warning(
            names.OPERATOR_REFUSED,
            "a call of an operator was not let in",
            method=method,
            cause=cause,
            subject=subject,
            token_id=token_id,
        )
