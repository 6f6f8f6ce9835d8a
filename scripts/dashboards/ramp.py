"""What the dashboard of a ramp shows: the ramp beside its predecessor, and the watchdog that compares them."""

from typing import Final

from scripts.dashboards.graphs import STEPS, events, level, share_of, times
from scripts.dashboards.panels import Dashboard, Graph
from scripts.dashboards.queries import WINDOW, beside
from sidecar.cli.evaluation import watchdog_metrics as watchdog
from sidecar.observability import call_names as calls
from sidecar.observability import names

RAN: Final = 'outcome=~"succeeded|degraded|suspended|failed"'
FAILING: Final = 'outcome=~"degraded|failed"'
SLOT: Final = 'sub_agent_id=~"$slot"'
WATCHED: Final = 'slot=~"$slot"'
SLOT_VARIABLE: Final = ("slot", "slot", f'label_values({{__name__=~"{calls.CALLS}", job=~"$job"}}, sub_agent_id)')
ARMS: Final = "definition_id, arm"
ROUND_AGE: Final = f"time() - max({beside(watchdog.LAST_ROUND)})"
SILENT_AFTER: Final = f"120 + 3 * max({beside(watchdog.INTERVAL)})"
"""As in the alert `RampWatchdogSilent`."""

RAMP: Final = Dashboard(
    "ramp",
    "Dispatch sidecar: a ramp beside its predecessor",
    "Compares the definition that ramps (arm `active`) with the one that serves the other users (`target`).",
    [
        (
            "Who is served by what",
            [
                level("Ramp", names.RAMP, "subagent_id", "percentunit", "Definitions in `promote`."),
                events("Calls", calls.CALLS, ARMS, "By definition and arm.", SLOT),
                level("Pinned turns", names.PINNED_TURNS, "subagent_id", "short", "Open turns with it."),
            ],
        ),
        (
            "Failures",
            [
                share_of(
                    "Share that fails",
                    ARMS,
                    f"{SLOT}, {FAILING}",
                    f"{SLOT}, {RAN}",
                    "Calls that ran and failed or lack data. Alert `CanaryFails` compares the arms.",
                ),
                events("Why", calls.CALLS, f"{ARMS}, reason", "Reasons by definition and arm.", SLOT, 'reason!=""'),
                times("Duration", names.CHILD_SECONDS, "Calls that ran; all definitions of the slot.", SLOT),
            ],
        ),
        (
            "Steps",
            [
                level(
                    "Transitions",
                    names.LIFECYCLE_TRANSITIONS,
                    "subagent_id, target_state",
                    "short",
                    "Each counts once, when a turn is bound with it.",
                ),
                level(
                    "Gates that refused",
                    names.GATES_FAILED,
                    "subagent_id, milestone",
                    "short",
                    "`sidecar subagent show` has the explanation.",
                ),
                level("Drift", names.DRIFT, "subagent_id", "short", "Sources that contradict."),
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
