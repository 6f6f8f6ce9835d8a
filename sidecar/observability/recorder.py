"""Implements the interface `Recorder`: counts and logs what operations report about turns, calls and data services."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.money import UNITS_OF_USD
from sidecar.core.dispatching.outcomes import Outcome, Usage
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.identifiers import Digest
from sidecar.core.status_events.policy import TYPE_FORM
from sidecar.observability import call_names, event_names, names
from sidecar.observability.logging import ALWAYS, StructuredLog
from sidecar.observability.metrics import Metrics
from sidecar.observability.routing import routing_fields
from sidecar.observability.scores import ScoreReports
from sidecar.operations.ports import NOTHING_MORE
from sidecar.operations.turn.state.turn_ends import ENDED
from subagents_errors import Axis

INCIDENT_WORDS: Final[Mapping[str, str]] = {
    "principal_absent": (
        "no principal in the envelope: is this an envelope at all? No user is confirmed, so it was withheld"
    )
}
"""Log texts by `WithholdReason`. Its values are repeated as strings: importing it would slow down every start."""
FAST: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Bounds in seconds for the sidecar's own work: half a millisecond to a second."""
SLOW: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0)
"""Bounds in seconds for the work of models and data services: ten milliseconds to two minutes."""
FEW: Final = (0.0, 1.0, 2.0)  # nearly all turns call none, one or two sub-agents
SUB_AGENTS: Final = tuple(float(number) for number in range(11))  # exact up to ten; larger caps are rare
TURNS: Final = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 50.0, 100.0)
TOKENS: Final = (250.0, 500.0, 1e3, 2e3, 4e3, 8e3, 16e3, 32e3, 64e3, 128e3)  # doubling, to a large context window
FAN_OUTS: Final = ("none", "one", "several")
ALERTING: Final = (
    *("breaker_opened", "attempt_quarantined", "outcome_unrecorded"),
    *("foreign_history", "history_lost", "history_deferred"),
    *("tombstone_not_kept", "tombstones_damaged", "stop_not_recorded", "audit_sink_failed", "many_cohorts"),
    *("gate_unavailable", "gate_not_believed"),
)
"""Anomalies with alert rules. Their series begin at 0 at the start, so that the first anomaly is a visible rise."""
UNKNOWN_TYPES: Final = 1000
"""The most pairs of slot and event type that get a warning. Further pairs are only counted: hosts choose the types."""
BEGINNINGS: Final = 1000
"""The most remembered prompt beginnings. Providers, too, drop cached ones after minutes to hours."""
NO_TYPE: Final = "progress in prose, not a typed identifier"
REPORTS: Final = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # per call; most sub-agents report a few times


class MeasuringRecorder(ScoreReports):
    """Counts in plain integers and logs decisions, incidents and anomalies. Never raises, never waits.

    Args:
        metrics: of the process.
        error_emit: whether failures of sub-agents are also logged as events.
    """

    def __init__(self, metrics: Metrics, *, error_emit: bool = False) -> None:
        super().__init__(metrics)
        self._error_emit = error_emit
        self._always = StructuredLog(ALWAYS)
        self._log = StructuredLog("sidecar.operations")
        self._unknown_types: set[tuple[str, str]] = set()
        self._beginnings = OrderedDict[Digest, None]()
        self._create_envelope_metrics(metrics)
        self._create_child_metrics(metrics)
        self._create_turn_metrics(metrics)
        self._create_episode_metrics(metrics)
        self._create_surface_metrics(metrics)
        self._anomalies = metrics.counter(names.ANOMALIES, "Things that should not happen.", "kind")
        for kind in ALERTING:
            self._anomalies.add(kind, by=0)

    def _create_envelope_metrics(self, metrics: Metrics) -> None:
        self._principal = metrics.counter(names.PRINCIPAL_MISMATCH, "Envelopes for another user.", "consumer")
        self._version = metrics.counter(names.VERSION_MISMATCH, "Payloads of another major version.", "consumer")
        for counter in (self._principal, self._version):
            counter.add(names.CONSUMER, by=0)  # so that the first one is a rise from 0, and alerts
        self._incidents = metrics.counter(
            names.SECURITY_INCIDENTS, "Responses that may belong to another user.", "reason"
        )
        self._data_calls = metrics.counter(
            names.DATA_CALLS, "Calls of data services.", "sub_agent_id", "tool_id", "result"
        )
        self._effects = metrics.counter(
            call_names.EFFECTS, "Tool calls that change something.", "sub_agent_id", "tool_id", "result"
        )
        self._data_seconds = metrics.histogram(names.DATA_CALL_SECONDS, "Time of data services.", SLOW, "tool_id")

    def _create_child_metrics(self, metrics: Metrics) -> None:
        self._child_seconds = metrics.histogram(
            names.CHILD_SECONDS, "Time of sub-agents.", SLOW, "sub_agent_id", "outcome"
        )
        self._calls = metrics.counter(
            call_names.CALLS, "Calls by outcome.", "sub_agent_id", "definition_id", "arm", "outcome", "reason"
        )
        self._child_failures = metrics.counter(names.CHILD_FAILURES, "Failures by axis.", "sub_agent_id", "axis")
        self._retries = metrics.counter(names.CHILD_RETRIES, "Attempts made again.", "sub_agent_id")
        self._money = metrics.counter(
            call_names.CHILD_COST, "Cost of sub-agents.", "sub_agent_id", "definition_id", "arm"
        )
        self._unpriced = metrics.counter(
            call_names.CHILD_UNPRICED, "Attempts of unknown cost.", "sub_agent_id", "definition_id"
        )
        self._tokens = metrics.counter(names.CHILD_TOKENS, "Tokens of sub-agents.", "sub_agent_id", "kind")
        self._reports = metrics.histogram(names.STATUS_EVENTS, "Reports of an invocation.", REPORTS, "sub_agent_id")
        self._decisions = metrics.counter(
            names.STATUS_DECISIONS, "Reports by what became of them.", "sub_agent_id", "decision"
        )

    def _create_turn_metrics(self, metrics: Metrics) -> None:
        self._turns = metrics.counter(names.TURNS_ENDED, "Turns that ended.", "close_reason", "cap")
        self._idle_ended = metrics.counter(names.IDLE_TURNS_ENDED, "Idle turns that were ended.", "why")
        for why in ("lifetime", "room"):
            self._idle_ended.add(why, by=0)  # so that alerts see the first one as a rise
        self._over_cap = metrics.counter(names.TURNS_OVER_CAP, "Turns with more calls than the cap.")
        self._intents = metrics.histogram(names.INTENTS, "Distinct sub-agents called in a turn.", FEW)
        self._fan_out = metrics.histogram(names.FAN_OUT, "Distinct sub-agents that ran in a turn.", SUB_AGENTS)
        self._fan_out_calls = metrics.counter(names.FAN_OUT_CALLS, "Calls of turns with several.", "result")
        self._partial = metrics.counter(names.PARTIAL_FAILURES, "Turns in which only some of several succeeded.")
        self._routing_seconds = metrics.histogram(
            names.ROUTING_SECONDS, "From the bind to the first call.", SLOW, "prior_context"
        )
        self._composing = metrics.histogram(names.COMPOSING_SECONDS, "From the last outcome to the end.", SLOW)
        self._turn_seconds = metrics.histogram(names.TURN_SECONDS, "From the bind to the end.", SLOW, "fan_out")
        self._failsafes = metrics.counter(names.FAILSAFES, "More intents declared than called.")
        self._without_context = metrics.counter(
            names.PRIOR_CONTEXT_MISSING, "Switches without prior_context.", "orchestrator_id"
        )
        self._texts_changed = metrics.counter(names.TEXTS_CHANGED, "Attempts with hidden text.", "sub_agent_id")
        self._daily_limits = metrics.counter(
            names.DAILY_LIMITS, "Calls refused by a daily limit.", "sub_agent_id", "reason"
        )
        self._dispatches = metrics.counter(names.DISPATCHES, "Dispatches that settled.", "result")
        self._overhead = metrics.histogram(names.OVERHEAD_SECONDS, "Time of the sidecar itself.", FAST)

    def _create_episode_metrics(self, metrics: Metrics) -> None:
        self._compaction = metrics.counter(names.COMPACTION, "Turns bound, by compaction being due.", "due")
        self._episode_turns = metrics.histogram(names.EPISODE_TURNS, "Turns of the episode at a bind.", TURNS)
        self._episode_tokens = metrics.histogram(names.EPISODE_TOKENS, "Estimated tokens at a bind.", TOKENS)

    def _create_surface_metrics(self, metrics: Metrics) -> None:
        self._offered = metrics.histogram(names.OFFERED_TOKENS, "Estimated tokens of tools and prefix.", TOKENS)
        self._prefixes = metrics.counter(names.PREFIXES, "Binds by whether their prefix was bound before.", "prefix")
        for prefix in ("repeated", "new"):
            self._prefixes.add(prefix, by=0)

    def child_settled(self, slot: str, outcome: str, axis: int, seconds: float) -> None:
        """Count one call that ran and has its outcome."""
        self._child_seconds.observe(seconds, slot, outcome)
        if axis:
            self._child_failures.add(slot, str(int(axis)))
            self._emit_error(slot, int(axis), is_final=True)  # no further attempt follows

    def call_settled(self, slot: str, definition_id: str, arm: str, outcome: str, reason: str) -> None:
        """Count one call by its definition, outcome and reason."""
        self._calls.add(slot, definition_id, arm, outcome, reason)

    def attempt_repeated(self, slot: str) -> None:
        """Count a failed attempt that is repeated. Source: PC2-D-52."""
        self._retries.add(slot)
        self._emit_error(slot, int(Axis.EXECUTION), is_final=False)

    def tokens_used(self, slot: str, usage: Usage) -> None:
        """Count the tokens of one attempt. Cache tokens have no series before one attempt reports them."""
        self._tokens.add(slot, "input", by=usage.input_tokens)
        self._tokens.add(slot, "output", by=usage.output_tokens)
        if usage.cached_input_tokens is not None:
            self._tokens.add(slot, "cached", by=usage.cached_input_tokens)

    def money_spent(self, slot: str, definition_id: str, arm: str, cost: int | None) -> None:
        """Count the cost of one attempt, or count an attempt of unknown cost."""
        if cost is None:
            self._unpriced.add(slot, definition_id)
        else:
            self._money.add(slot, definition_id, arm, by=cost / UNITS_OF_USD)

    def _emit_error(self, slot: str, axis: int, *, is_final: bool) -> None:
        """Log a failure. The event must never contain an enricher, a user or a text. Source: PC2-D-53, TN-32."""
        if self._error_emit:
            fields = {"sub_agent_id": slot, "axis": axis, "is_final": is_final}
            self._always.info(event_names.ERROR_EMIT, "a sub-agent failed", **fields)

    def turn_bound(self, compaction_due: str, turns: int | None, estimated_tokens: int | None) -> None:
        """Count one bound turn, and the length of its episode."""
        self._compaction.add(str(compaction_due))
        if turns is not None and estimated_tokens is not None:
            self._episode_turns.observe(turns)
            self._episode_tokens.observe(estimated_tokens)

    def surface_bound(self, beginning: Digest, estimated_tokens: int) -> None:
        """Count the size of a turn's surface, and whether its prompt `beginning` may be in a provider's cache."""
        self._offered.observe(estimated_tokens)
        self._prefixes.add("repeated" if beginning in self._beginnings else "new")
        self._beginnings[beginning] = None
        self._beginnings.move_to_end(beginning)  # a provider's cache is extended by each use, too
        if len(self._beginnings) > BEGINNINGS:
            self._beginnings.popitem(last=False)

    def idle_turn_ended(self, why: str) -> None:
        """Count an idle turn that was ended."""
        self._idle_ended.add(why)

    def dispatch_settled(self, calls: int, failed: int, overhead: timedelta) -> None:
        """Count one dispatch."""
        result = "empty" if calls == 0 else "all" if failed == 0 else "none" if failed >= calls else "some"
        self._dispatches.add(result)
        self._overhead.observe(overhead.total_seconds())

    def turn_routed(self, record: RoutingRecord) -> None:
        """Count one turn and write its routing decision to the log."""
        ran = [call for call in record.calls if call.started_at is not None]
        distinct = len({call.sub_agent_id for call in ran})
        fields = routing_fields(record)
        self._turns.add(record.close_reason, str(record.cap))
        self._intents.observe(fields["intent_count"])
        self._fan_out.observe(distinct)
        if record.cap is CapBehaviour.OVER:
            self._over_cap.add()  # `turn.ended_total` counts it, too; this one has no labels
        succeeded = len([call for call in ran if call.outcome is Outcome.SUCCEEDED])
        for call in ran:
            self._reports.observe(call.status_events, call.sub_agent_id or "")
        if len(ran) > 1:
            self._fan_out_calls.add("succeeded", by=succeeded)
            self._fan_out_calls.add("not_succeeded", by=len(ran) - succeeded)
            self._partial.add(by=int(0 < succeeded < len(ran)))  # adds 0 if all or none succeeded
        self._time_of_turn(record, distinct, [call.started_at for call in ran if call.started_at is not None])
        self._failsafes.add(by=len([None for report in fields["intents"] if report["failsafe"]]))
        self._always.info(event_names.ROUTING_DECISION, "the turn has ended", **fields)

    def _time_of_turn(self, record: RoutingRecord, distinct: int, starts: Sequence[datetime]) -> None:
        """Measure the orchestrator's time as far as the sidecar can see it. Source: PC1-OBS-2."""
        took = (record.ended_at - record.bound_at).total_seconds()
        self._turn_seconds.observe(took, FAN_OUTS[min(distinct, 2)])
        if not starts:
            return
        switched = True in [report.switched for report in record.intents]
        self._routing_seconds.observe(
            (min(starts) - record.bound_at).total_seconds(), "needed" if switched else "not_needed"
        )
        if record.close_reason == ENDED:  # any other end was not composed by a model
            last = max([call.settled_at for call in record.calls])
            self._composing.observe((record.ended_at - last).total_seconds())

    def status_seen(self, slot: str, decision: str) -> None:
        """Count one progress report and the policy's decision about it."""
        self._decisions.add(slot, decision)

    def status_unknown(self, slot: str, event_type: str) -> None:
        """Warn once for each slot and type. A type that is no identifier is not logged: it may be text of a user."""
        shown = event_type if TYPE_FORM.match(event_type) else ""
        if (slot, shown) in self._unknown_types or len(self._unknown_types) >= UNKNOWN_TYPES:
            return
        self._unknown_types.add((slot, shown))
        what = f"the status event {shown!r}, which has no entry in [status.events]" if shown else NO_TYPE
        self.anomaly("status_unknown", f"{slot} reported {what}; it is dropped", {"sub_agent_id": slot, "type": shown})

    def prior_context_missing(self, orchestrator_id: str) -> None:
        """Count an intent switch without `prior_context`."""
        self._without_context.add(orchestrator_id)

    def text_changed(self, slot: str) -> None:
        """Count an attempt from whose text hidden characters or special tokens were removed."""
        self._texts_changed.add(slot)

    def daily_limit(self, slot: str, reason: str) -> None:
        """Count a call that was refused by a daily limit."""
        self._daily_limits.add(slot, reason)

    def data_call(self, slot: str, tool_id: str, result: str, seconds: float) -> None:
        """Count one call of a data service."""
        self._data_calls.add(slot, tool_id, str(result))
        self._data_seconds.observe(seconds, tool_id)

    def effect_settled(self, slot: str, tool_id: str, result: str) -> None:
        """Count one effect of a tool call."""
        self._effects.add(slot, tool_id, str(result))

    def principal_mismatch(self, slot: str, tool_id: str, child_id: str) -> None:
        """Count an envelope for another user. `security_incident` writes the line of the log. Source: PC2-FR-12d."""
        self._principal.add(names.CONSUMER)

    def security_incident(self, slot: str, tool_id: str, child_id: str, reason: str) -> None:
        """Log and count a response that may belong to another user. Source: PC2-FR-12c."""
        self._incidents.add(str(reason))  # also counts the reasons that `_principal` does not
        text = INCIDENT_WORDS.get(reason, "a data service's response may belong to another user; it was withheld")
        about = {"sub_agent_id": slot, "tool_id": tool_id, "child_id": child_id, "reason": str(reason)}
        self._always.error(event_names.SECURITY_INCIDENT, text, None, **about)

    def version_mismatch(self, slot: str, tool_id: str) -> None:
        """Count an envelope whose payload has another major version."""
        self._version.add(names.CONSUMER)

    def anomaly(self, kind: str, detail: str, about: Mapping[str, str] = NOTHING_MORE) -> None:
        """Log and count an unexpected event."""
        self._anomalies.add(kind)
        self._log.warning(event_names.ANOMALY, detail, kind=kind, **about)
