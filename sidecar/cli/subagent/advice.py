"""What to do next where a sidecar refuses something, or could not be asked."""

from collections.abc import Mapping
from typing import Final

from sidecar.core.rollout.remedies import CHOICES, NOBODY, REMEDY, STEP, Remedy

HOW_TO_MINT: Final = (
    "mint a token with `sidecar token mint`, and hand it over as SIDECAR_ROLE_TOKEN or in a file with --token-file"
)
NEXT: Final = {
    "TRANSITION_REFUSED": "`sidecar subagent show {name}` says where it stands",
    "GATE_FAILED": "nothing moved; fix what the gate says and run this again, or let this one `fail` pass once: "
    "`sidecar subagent override {name} --gate {gate} …`",
    "GATE_HELD": "nothing moved; run this again once {gate} has said yes (an outage cannot be overridden)",
    "POLICY_DENIED": "nothing moved; run this again when the policy allows it",
    "REVISION_CONFLICT": "nothing was done: the rollout was changed by somebody else, or --revision is old; look with "
    "`sidecar subagent show {name}`, then run this again",
    "REQUEST_ID_REUSED": "leave --request-id out for a new step; to repeat an earlier one, give its --revision and all "
    "else exactly as then",
    "UNKNOWN_DEFINITION": "`sidecar subagent list` shows which there are",
    "UNKNOWN_TURN": "`sidecar turns --state open` shows which are on record; ask the sidecar that bound it",
    "ROLE_REQUIRED": "mint a token with a role that may: `sidecar token mint --role …`",
    "ROLE_TOKEN_INVALID": HOW_TO_MINT,
    "STORE_UNAVAILABLE": "nobody can say how rollouts stand until the store is back; a kill holds even so",
}
"""By reason."""
HELPS: Final = {
    Remedy.PROMOTE: "`sidecar subagent promote {name} --reason …` comes before",
    Remedy.FIRST_RAMP: "`sidecar subagent ramp {name} PERCENT --reason …` with a smaller share, then this again",
    Remedy.DECLARED_RAMP: "take one of these steps, or declare others: `sidecar subagent configure {name} --curve …`",
    Remedy.ACKNOWLEDGE: "`sidecar subagent acknowledge {name} --reason …`, then this again",
    Remedy.NAME_TARGET: "say who serves then: `sidecar subagent rollback {name} --to {choices} --reason …`",
    Remedy.ROLL_BACK: "`sidecar subagent rollback {name} --reason …` comes before",
    Remedy.BEGIN_DECOMMISSION: "`sidecar subagent decommission begin {name} --reason …` comes before",
    Remedy.DECOMMISSION_STEP: "`sidecar subagent decommission step {name} {step} --reason …` comes before",
    Remedy.DECIDE: "`sidecar subagent decommission decide {name} evals|tools retain|remove --reason …` comes before",
    Remedy.CLEAN_UP: "`sidecar subagent decommission patch {name}` writes the change",
    Remedy.WAIT_FOR_TURNS: "`sidecar turns --state open` shows which; run this again once they have ended",
}
"""By what the sidecar says would help; more telling than the reason."""


def advice_for(reason: str, metadata: Mapping[str, str], name: str) -> str:
    """Return what to do about a refusal of something about `name`; empty: nobody knows."""
    helps = {each.value: text for each, text in HELPS.items()}
    text = helps.get(metadata.get(REMEDY, ""), NEXT.get(reason, ""))
    gate, step = metadata.get("gate", "the gate"), metadata.get(STEP, "")
    return text.format(name=name or "<id>", gate=gate, step=step, choices=metadata.get(CHOICES, NOBODY))
