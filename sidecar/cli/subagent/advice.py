"""Advises operators what to do next after a refused or failed request."""

from collections.abc import Mapping
from typing import Final

from sidecar.core.rollout.remedies import CHOICES, NO_DEFINITION, REMEDY, STEP, Remedy

BEFORE_RAMPS: Final = "pre_merge"
"""The gate before the promotion: its results belong to no step of the ramp."""
HOW_TO_MINT: Final = (
    "mint a token with `sidecar token mint` and pass it as SIDECAR_ROLE_TOKEN or in a file with --token-file"
)
NEXT: Final = {
    "TRANSITION_REFUSED": "`sidecar subagent show {name}` shows the current state",
    "GATE_FAILED": "nothing changed; fix what the gate reports and repeat the command, or permit this one step: "
    "`sidecar subagent override {name} --gate {gate} …`",
    "GATE_HELD": "nothing changed; repeat the command once {gate} passes{held}",
    "POLICY_DENIED": "nothing changed; repeat the command when the policy permits the step",
    "REVISION_CONFLICT": "nothing changed: another operator changed the rollout, or --revision is outdated; check with "
    "`sidecar subagent show {name}`, then repeat the command",
    "REQUEST_ID_REUSED": "omit --request-id for a new step; to repeat an earlier step, give its --revision and the "
    "same arguments as before",
    "UNKNOWN_DEFINITION": "`sidecar subagent list` shows the known definitions",
    "UNKNOWN_TURN": "`sidecar turns --state open` shows the recorded turns; use the sidecar that bound it",
    "ROLE_REQUIRED": "mint a token with a role that permits this: `sidecar token mint --role …`",
    "ROLE_TOKEN_INVALID": HOW_TO_MINT,
    "STORE_UNAVAILABLE": "the state of rollouts is unknown until the store is available; a kill takes effect even so",
}
"""Advice by error reason."""
HELD: Final = {
    "pending": ". If it reads evaluations, record one: `sidecar eval run <config> --record {gate}{step}`",
    "unavailable": " (it gave no valid answer, and an outage cannot be overridden)",
}
"""More advice on a gate that held a step, by its verdict. Older sidecars do not send the verdict."""
HELPS: Final = {
    Remedy.PROMOTE: "run `sidecar subagent promote {name} --reason …` first",
    Remedy.FIRST_RAMP: "run `sidecar subagent ramp {name} PERCENT --reason …` with a smaller share first",
    Remedy.DECLARED_RAMP: "take one of these steps, or declare others: `sidecar subagent configure {name} --curve …`",
    Remedy.ACKNOWLEDGE: "run `sidecar subagent acknowledge-breach {name} --reason …` first",
    Remedy.NAME_TARGET: "name the successor: `sidecar subagent rollback {name} --to {choices} --reason …`",
    Remedy.NEW_DEFINITION: "author a new definition: a rollback or kill of {name} is permanent (docs/kill-switch.md)",
    Remedy.ROLL_BACK: "run `sidecar subagent rollback {name} --reason …` first",
    Remedy.BEGIN_DECOMMISSION: "run `sidecar subagent decommission begin {name} --reason …` first",
    Remedy.DECOMMISSION_STEP: "run `sidecar subagent decommission step {name} {step} --reason …` first",
    Remedy.DECIDE: "run `sidecar subagent decommission decide {name} evals|tools retain|remove --reason …` first",
    Remedy.CLEAN_UP: "`sidecar subagent decommission patch {name}` writes the change",
    Remedy.WAIT_FOR_TURNS: "`sidecar turns --state open` lists them; repeat the command once they have ended",
}
"""Advice by the remedy that the sidecar returns; it is more specific than the reason, so it takes precedence."""


def advice_for(reason: str, metadata: Mapping[str, str], name: str) -> str:
    """Return the next action after a refusal; empty: there is no reason, so no sidecar has refused.

    Args:
        reason: the reason in `google.rpc.ErrorInfo`.
        metadata: of the same `ErrorInfo`; a sidecar may send a remedy, and values such as the gate that held the step.
        name: the id of the definition that the request was about; empty: none.
    """
    helps = {each.value: text for each, text in HELPS.items()}
    page = f"see docs/errors.md#{reason.lower()}" if reason else ""
    # A remedy or reason of a newer sidecar is unknown here; the page of errors is the advice for all of these.
    text = helps.get(metadata.get(REMEDY, ""), NEXT.get(reason, page))
    gate, step = metadata.get("gate", "the gate"), metadata.get(STEP, "")
    ramps = "" if gate == BEFORE_RAMPS else " --from PERCENT --to PERCENT"
    held = HELD.get(metadata.get("verdict", ""), "").format(gate=gate, step=ramps)
    choices = metadata.get(CHOICES, NO_DEFINITION)
    # Every text gets all values and uses some, so a new text needs no change here.
    return text.format(name=name or "<id>", gate=gate, step=step, choices=choices, held=held)
