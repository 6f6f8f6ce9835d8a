"""What the four dashboards show. Each panel has data from the start, or from the first event that it is about."""

from typing import Final

from scripts.dashboards.panels import Dashboard, Graph, Number
from scripts.dashboards.queries import WINDOW, beside, quantile, rate, series, share, total
from sidecar.cli.evaluation import watchdog_metrics as watchdog
from sidecar.observability import call_names as calls
from sidecar.observability import names, rollout_names

RAN: Final = 'outcome=~"succeeded|degraded|suspended|failed"'
WANTED: Final = 'outcome!~"dropped|refused"'
SERVER_FAULTS: Final = (
    'rpc_response_status_code=~"UNKNOWN|INTERNAL|UNAVAILABLE|RESOURCE_EXHAUSTED|DEADLINE_EXCEEDED|DATA_LOSS"'
)
DISPATCH: Final = 'rpc_method=~"subagents.dispatch.*"'
UNANSWERED: Final = 'outcome=~"failed|not_started"'
FAILING: Final = 'outcome=~"degraded|failed"'
SLOT: Final = 'sub_agent_id=~"$slot"'
WATCHED: Final = 'slot=~"$slot"'
STEPS: Final = (
    ("rollout step", f"changes({series(rollout_names.RAMP)}[1m]) > 0"),
    ("kill", f"increase({series(rollout_names.KILL_SWITCHES_FIRED)}[1m]) > 0"),
)
SLOT_VARIABLE: Final = ("slot", "slot", f'label_values({{__name__=~"{calls.CALLS}", job=~"$job"}}, sub_agent_id)')
CERTIFICATES: Final = (
    f"{series(calls.TLS_CERTIFICATE_LEFT)} / on (instance, job, section)"
    f" {series(calls.TLS_CERTIFICATE_LIFE)} or on () vector(1)"
)
ARMS: Final = "definition_id, arm"
ROUND_AGE: Final = f"time() - max({beside(watchdog.LAST_ROUND)})"
SILENT_AFTER: Final = f"120 + 3 * max({beside(watchdog.INTERVAL)})"
"""As in the alert `RampWatchdogSilent`."""


def _legend(by: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in by.replace(" ", "").split(",") if label)


def _events(title: str, name: str, by: str, description: str, *conditions: str) -> Graph:
    """Events per second."""
    return Graph(title, [(rate(name, by, *conditions), _legend(by))], "reqps", description)


def _level(title: str, name: str, by: str, unit: str, description: str) -> Graph:
    """The present value of a gauge, or the whole value of a counter."""
    return Graph(title, [(total(name, by), _legend(by))], unit, description)


def _time(title: str, name: str, description: str, *conditions: str) -> Graph:
    """Quantiles of a duration over all series."""
    lines = [(quantile(part, name, "", *conditions), f"p{part * 100:g}") for part in (0.5, 0.95, 0.99)]
    return Graph(title, lines, "s", description)


def _slowest(title: str, name: str, by: str, description: str) -> Graph:
    """The 99th percentile of a duration, by label."""
    return Graph(title, [(quantile(0.99, name, by), f"{_legend(by)} p99")], "s", description)


def _share(title: str, by: str, part: str, whole: str, description: str) -> Graph:
    """The share of the calls with one condition among those with another."""
    return Graph(title, [(share(calls.CALLS, by, part, whole), _legend(by))], "percentunit", description)


USERS: Final = Dashboard(
    "users",
    "Dispatch sidecar: users served",
    "Whether users get answers, and why not.",
    [
        (
            "Now",
            [
                Number("Sidecars that take turns", total(names.READY), "short", "If one does not, /readyz says why."),
                Number("Calls", rate(calls.CALLS, "", WANTED), "reqps", "Calls within the assistant's cap."),
                Number(
                    "Without an answer",
                    share(calls.CALLS, "", UNANSWERED, WANTED),
                    "percentunit",
                    "Calls that failed or did not start. Alert `UsersNotServed`: more than 20 % of one sub-agent.",
                ),
                Number("Turns that ended", rate(names.TURNS_ENDED, ""), "reqps", "Their routing decision is recorded."),
                Number(
                    "Another user's data",
                    total(names.PRINCIPAL_MISMATCH),
                    "short",
                    "Responses for another user, withheld since the start. Alert `EnvelopeForAnotherUser`: any.",
                ),
                Number(
                    "RPCs that fail",
                    share(f"{calls.RPC_SECONDS}_count", "", f"{DISPATCH}, {SERVER_FAULTS}", DISPATCH),
                    "percentunit",
                    "Calls of DispatchService that fail in the sidecar. Alert `RpcsFail`: more than 5 %.",
                ),
            ],
        ),
        (
            "Calls of sub-agents",
            [
                _events("Outcomes", calls.CALLS, "outcome", "All calls."),
                _events(
                    "Why calls have no answer",
                    calls.CALLS,
                    "sub_agent_id, reason",
                    "`docs/errors.md` says what each reason means and what to do.",
                    'reason!=""',
                ),
                _share("Share without an answer", "sub_agent_id", UNANSWERED, WANTED, "By sub-agent."),
                _slowest("Duration", names.CHILD_SECONDS, "sub_agent_id", "Calls that ran, from start to outcome."),
                _events(
                    "Data services",
                    names.DATA_CALLS,
                    "tool_id, result",
                    "`released`: the data passed every check. Each other result says why it was withheld.",
                ),
                _slowest("Duration of data calls", names.DATA_CALL_SECONDS, "tool_id", "Calls through the gateway."),
            ],
        ),
        (
            "Turns and RPCs",
            [
                _time("Duration of turns", names.TURN_SECONDS, "From the bind to the end."),
                _events("RPCs", f"{calls.RPC_SECONDS}_count", "rpc_method", "All listeners and session lanes."),
                _slowest("Duration of RPCs", calls.RPC_SECONDS, "rpc_method", "A stream lasts as long as it is open."),
            ],
        ),
    ],
    marks=STEPS,
)
RAMP: Final = Dashboard(
    "ramp",
    "Dispatch sidecar: a ramp beside its predecessor",
    "Compares the definition that ramps (arm `active`) with the one that serves the other users (`target`).",
    [
        (
            "Who is served by what",
            [
                _level("Ramp", rollout_names.RAMP, "subagent_id", "percentunit", "Definitions in `promote`."),
                _events("Calls", calls.CALLS, ARMS, "By definition and arm.", SLOT),
                _level("Pinned turns", rollout_names.PINNED_TURNS, "subagent_id", "short", "Open turns with it."),
            ],
        ),
        (
            "Failures",
            [
                _share(
                    "Share that fails",
                    ARMS,
                    f"{SLOT}, {FAILING}",
                    f"{SLOT}, {RAN}",
                    "Calls that ran and failed or lack data. Alert `CanaryFails` compares the arms.",
                ),
                _events("Why", calls.CALLS, f"{ARMS}, reason", "Reasons by definition and arm.", SLOT, 'reason!=""'),
                _time("Duration", names.CHILD_SECONDS, "Calls that ran; all definitions of the slot.", SLOT),
            ],
        ),
        (
            "Steps",
            [
                _level(
                    "Transitions",
                    rollout_names.LIFECYCLE_TRANSITIONS,
                    "subagent_id, target_state",
                    "short",
                    "Each counts once, when a turn is bound with it.",
                ),
                _level(
                    "Gates that refused",
                    rollout_names.GATES_FAILED,
                    "subagent_id, milestone",
                    "short",
                    "`sidecar subagent show` has the explanation.",
                ),
                _level("Drift", rollout_names.DRIFT, "subagent_id", "short", "Sources that contradict."),
            ],
        ),
        (
            "Watchdog",
            [
                Graph(
                    "Time since the last round",
                    [(ROUND_AGE, "last round"), (SILENT_AFTER, "silent after")],
                    "s",
                    "Empty: no watchdog shows its metrics. Alert `RampWatchdogSilent`: above the limit during a ramp.",
                    width=6,
                ),
                Graph(
                    "Verdict",
                    [(f"max by (slot, verdict) ({beside(watchdog.VERDICT, WATCHED)})", "{{slot}} {{verdict}}")],
                    "short",
                    "1: the last verdict on a ramp under way. Alert `RampNotJudged`: `unsure` for 10 minutes.",
                    width=6,
                ),
                Graph(
                    "Rounds",
                    [(f"sum by (result) (rate({beside(watchdog.ROUNDS)}[{WINDOW}])) * 60", "{{result}} a minute")],
                    "short",
                    "`failed`: no sidecar, no token or no evidence; the watchdog's output says which.",
                    width=6,
                ),
                Graph(
                    "Breaches",
                    [(f"sum by (result) ({beside(watchdog.RAMP_DOWNS)})", "{{result}}")],
                    "short",
                    "Since the watchdog started. Alert `RampDownRefused`: any `refused`.",
                    width=6,
                ),
            ],
        ),
    ],
    variables=(SLOT_VARIABLE,),
    marks=STEPS,
)
CAPACITY: Final = Dashboard(
    "capacity",
    "Dispatch sidecar: capacity",
    "How much runs at once, what is refused, and what the process has left.",
    [
        (
            "Work",
            [
                Graph(
                    "Turns",
                    [(total(names.TURNS_OPEN), "open"), (total(names.TURNS_IDLE), "idle")],
                    "short",
                    "Idle: the orchestrator's model is thinking, or the turn was abandoned.",
                ),
                _level("Dispatches", names.DISPATCHES_RUNNING, "instance", "short", "Running."),
                _level("Dispatches by vertical", calls.VERTICAL_DISPATCHES, "vertical", "short", "Running."),
                _events(
                    "Refused because of a limit",
                    calls.ADMISSION_REFUSED,
                    "limit",
                    "`turns`, `dispatches`: add replicas. `vertical`: its sub-agents are slow.",
                ),
                _level(
                    "Turns ended by the sidecar",
                    names.IDLE_TURNS_ENDED,
                    "why",
                    "short",
                    "Their consumer-agent left them open. Alert `TurnsNotEnded`: more than a tenth of all.",
                ),
                _time("Overhead", names.OVERHEAD_SECONDS, "What a dispatch took beyond its sub-agents and their data."),
                _time("Delay of the event loop", names.LOOP_LAG, "p99 above 50 ms: a call blocks it."),
            ],
        ),
        (
            "Process",
            [
                Graph(
                    "File descriptors",
                    [(total(calls.FILES_OPEN, "instance"), "{{instance}}"), (total(calls.FILES_LIMIT), "limit")],
                    "short",
                    "192 stay free for operators, probes and the record.",
                ),
                _level("Memory of ended turns", calls.ENDED_BYTES, "instance", "bytes", "Their answers and requests."),
                _level(
                    "Age of flags",
                    rollout_names.FLAGS_AGE,
                    "backend",
                    "s",
                    "Too old flags are off.",
                ),
                _level("Blocking calls", names.LOOP_HELD_UP, "plugin", "short", "The log names the frame."),
                Graph(
                    "Sidecars that answer",
                    [('up{job=~"$job", instance=~"$instance"}', "{{instance}}")],
                    "short",
                    "0: Prometheus cannot reach it. Alert `SidecarGone`: for a minute.",
                ),
                Graph(
                    "Clock ahead of Prometheus",
                    [(f"{series(calls.CLOCK)} - timestamp({series(calls.CLOCK)})", "{{instance}}")],
                    "s",
                    "Alert `ClockWrong`: more than 5 s in either direction.",
                ),
                Graph(
                    "Life of certificates that is left",
                    [(CERTIFICATES, "{{instance}} {{section}}")],
                    "percentunit",
                    "All of it where there is no TLS. Alert `CertificateExpires`: less than a third.",
                ),
                _level("Session lanes", names.LANES, "instance", "short", "Open."),
                _level("Lost log lines", names.LOG_LINES_LOST, "instance", "short", "Their reader is too slow."),
            ],
        ),
    ],
    marks=STEPS,
)
RECORD: Final = Dashboard(
    "record",
    "Dispatch sidecar: the record",
    "Whether what happened is recorded, signed, listed and exported.",
    [
        (
            "Record",
            [
                _level(
                    "Without a checkpoint",
                    names.CHECKPOINT_WAITING,
                    "instance",
                    "s",
                    "Unsigned facts could be removed without a trace. Alert `NoCheckpoint`: more than 300 s.",
                ),
                _time("Time to record", calls.APPEND_SECONDS, "Until an append is durable. Alert `RecordSlow`: 0.5 s."),
                _level("Checkpoints", names.CHECKPOINTS, "result", "short", "Signed, or failed."),
                _level("Facts not listed yet", names.PROJECTION_LAG, "instance", "short", "Turns are not affected."),
                _level("Incomplete lists", names.LISTS_BEHIND, "instance", "short", "With an `as_of` in the past."),
                _level("Removed by retention", names.RECORD_PURGED, "kind", "short", "Turns and attempts."),
                _events("Unexpected conditions", names.ANOMALIES, "kind", "The log has them as `sidecar.anomaly`."),
            ],
        ),
        (
            "Rollouts and audit",
            [
                _level(
                    "Audit events not exported",
                    rollout_names.AUDIT_WAITING,
                    "instance",
                    "s",
                    "Age of the oldest. Alert `AuditNotExported`: more than 300 s.",
                ),
                _level("Audit events exported", rollout_names.AUDIT_EXPORTED, "sink", "short", "By sink."),
                _level(
                    "Stops not on record",
                    rollout_names.STOPS_PENDING,
                    "instance",
                    "short",
                    "Only this replica applies them. Alert `StopNotOnRecord`: for two minutes.",
                ),
            ],
        ),
    ],
    marks=STEPS,
)
ALL: Final = (USERS, RAMP, CAPACITY, RECORD)
