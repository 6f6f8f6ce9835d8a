"""What the four dashboards show. Each panel has data from the start, or from the first event that it is about."""

from typing import Final

from scripts.dashboards.graphs import STEPS, events, level, share_of, slowest, times
from scripts.dashboards.panels import Dashboard, Graph, Number
from scripts.dashboards.queries import rate, series, share, total
from scripts.dashboards.ramp import RAMP
from sidecar.observability import call_names as calls
from sidecar.observability import names

WANTED: Final = 'outcome!~"dropped|refused"'
SERVER_FAULTS: Final = (
    'rpc_response_status_code=~"UNKNOWN|INTERNAL|UNAVAILABLE|RESOURCE_EXHAUSTED|DEADLINE_EXCEEDED|DATA_LOSS"'
)
DISPATCH: Final = 'rpc_method=~"subagents.dispatch.*"'
UNANSWERED: Final = 'outcome=~"failed|not_started"'
CERTIFICATES: Final = (
    f"{series(calls.TLS_CERTIFICATE_LEFT)} / on (instance, job, section)"
    f" {series(calls.TLS_CERTIFICATE_LIFE)} or on () vector(1)"
)

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
                events("Outcomes", calls.CALLS, "outcome", "All calls."),
                events(
                    "Why calls have no answer",
                    calls.CALLS,
                    "sub_agent_id, reason",
                    "`docs/errors.md` says what each reason means and what to do.",
                    'reason!=""',
                ),
                share_of("Share without an answer", "sub_agent_id", UNANSWERED, WANTED, "By sub-agent."),
                slowest("Duration", names.CHILD_SECONDS, "sub_agent_id", "Calls that ran, from start to outcome."),
                events(
                    "Data services",
                    names.DATA_CALLS,
                    "tool_id, result",
                    "`released`: the data passed every check. Each other result says why it was withheld.",
                ),
                slowest("Duration of data calls", names.DATA_CALL_SECONDS, "tool_id", "Calls through the gateway."),
            ],
        ),
        (
            "Turns and RPCs",
            [
                times("Duration of turns", names.TURN_SECONDS, "From the bind to the end."),
                events("RPCs", f"{calls.RPC_SECONDS}_count", "rpc_method", "All listeners and session lanes."),
                slowest("Duration of RPCs", calls.RPC_SECONDS, "rpc_method", "A stream lasts as long as it is open."),
            ],
        ),
    ],
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
                level("Dispatches", names.DISPATCHES_RUNNING, "instance", "short", "Running."),
                level("Dispatches by vertical", calls.VERTICAL_DISPATCHES, "vertical", "short", "Running."),
                events(
                    "Refused because of a limit",
                    calls.ADMISSION_REFUSED,
                    "limit",
                    "`turns`, `dispatches`: add replicas. `vertical`: its sub-agents are slow.",
                ),
                level(
                    "Turns ended by the sidecar",
                    names.IDLE_TURNS_ENDED,
                    "why",
                    "short",
                    "Their consumer-agent left them open. Alert `TurnsNotEnded`: more than a tenth of all.",
                ),
                times("Overhead", names.OVERHEAD_SECONDS, "What a dispatch took beyond its sub-agents and their data."),
                times("Delay of the event loop", names.LOOP_LAG, "p99 above 50 ms: a call blocks it."),
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
                level("Memory of ended turns", calls.ENDED_BYTES, "instance", "bytes", "Their answers and requests."),
                level(
                    "Age of flags",
                    names.FLAGS_AGE,
                    "backend",
                    "s",
                    "Too old flags are off.",
                ),
                level("Blocking calls", names.LOOP_HELD_UP, "plugin", "short", "The log names the frame."),
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
                level("Session lanes", names.LANES, "instance", "short", "Open."),
                level("Lost log lines", names.LOG_LINES_LOST, "instance", "short", "Their reader is too slow."),
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
                level(
                    "Without a checkpoint",
                    names.CHECKPOINT_WAITING,
                    "instance",
                    "s",
                    "Unsigned facts could be removed without a trace. Alert `NoCheckpoint`: more than 300 s.",
                ),
                times("Time to record", calls.APPEND_SECONDS, "Until an append is durable. Alert `RecordSlow`: 0.5 s."),
                level("Checkpoints", names.CHECKPOINTS, "result", "short", "Signed, or failed."),
                level("Facts not listed yet", names.PROJECTION_LAG, "instance", "short", "Turns are not affected."),
                level("Incomplete lists", names.LISTS_BEHIND, "instance", "short", "With an `as_of` in the past."),
                level("Removed by retention", names.RECORD_PURGED, "kind", "short", "Turns and attempts."),
                events("Unexpected conditions", names.ANOMALIES, "kind", "The log has them as `sidecar.anomaly`."),
            ],
        ),
        (
            "Rollouts and audit",
            [
                level(
                    "Audit events not exported",
                    names.AUDIT_WAITING,
                    "instance",
                    "s",
                    "Age of the oldest. Alert `AuditNotExported`: more than 300 s.",
                ),
                level("Audit events exported", names.AUDIT_EXPORTED, "sink", "short", "By sink."),
                level(
                    "Stops not on record",
                    names.STOPS_PENDING,
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
