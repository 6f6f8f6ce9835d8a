"""Reports of scores: a histogram by slot and arm, and the event of OpenTelemetry's conventions in the log."""

from typing import Final

from sidecar.core.evaluation.scores import Score, ScoredCall
from sidecar.observability import call_names, span_names
from sidecar.observability.logging import ALWAYS, StructuredLog
from sidecar.observability.metrics import OTHER, Metrics

BOUNDS: Final = tuple(tenth / 10 for tenth in range(11))
MOST_NAMES: Final = 50
"""The most names of scores with their own series. Clients choose the names, so there must be a limit."""


class ScoreReports:
    """Counts and logs scores. Never raises, never waits."""

    def __init__(self, metrics: Metrics) -> None:
        self._score_log = StructuredLog(ALWAYS)
        self._score_names = dict[str, None]()
        self._scores = metrics.histogram(
            call_names.SCORES, "Scores of calls.", BOUNDS, "sub_agent_id", "arm", "score", "source"
        )

    def score_recorded(self, score: Score, call: ScoredCall) -> None:
        """Count a score and log the event. The explanation is content of a user, so it is only in the record."""
        source, series = score.source.name.lower(), score.name
        if series not in self._score_names:
            if len(self._score_names) < MOST_NAMES:
                # First come, first served: a name keeps its series for the life of the process.
                self._score_names[series] = None
            else:
                series = OTHER
        self._scores.observe(score.value, call.slot, call.arm, series, source)
        self._score_log.info(
            call_names.EVALUATION_RESULT,
            "a score was recorded",
            **{
                call_names.EVALUATION_NAME: score.name,
                call_names.EVALUATION_VALUE: score.value,
                call_names.EVALUATION_LABEL: score.label,
                span_names.AGENT_NAME: call.slot,
                span_names.AGENT_ID: call.definition_id,
                span_names.AGENT_VERSION: call.digest,
                span_names.TURN_ID: score.turn_id,
                span_names.DISPATCH_ID: score.dispatch_id,
                span_names.TOOL_CALL_ID: score.call_id,
                "arm": call.arm,
                "source": source,
            },
        )
