"""Trials and runs made by tests."""

from datetime import UTC, datetime
from typing import Any

from subagents_evals.inputs.cases import Case, ScriptedSubAgent, Suite
from subagents_evals.measures.metrics import measured
from subagents_evals.measures.results import Measured, Run
from subagents_evals.measures.trial import Observed, Trial, judged

SLOTS = ("shop", "rewards", "support")
SUITE = Suite(
    version=1,
    sub_agents={slot: ScriptedSubAgent(f"from {slot}") for slot in SLOTS},
    admissions={"en": ("sorry", "could not"), "de": ("leider",)},
)


def case_of(name: str, *calls: str, **fields: Any) -> Case:
    """Return a case."""
    return Case(**{"id": name, "message": f"say {name}", "calls": calls, "language": "en", **fields})


def trial_of(case: Case, *called: str, repetition: int = 0, **observed: Any) -> Trial:
    """Return the trial of a case in which these were called; it declared as many intents as calls."""
    seen = {"called": called, "declared_intents": len(called), "answer": "Fine.", **observed}
    return judged(case, SUITE, SLOTS, Observed(**seen), repetition)


def run_of(*trials: Trial, **fields: Any) -> Run:
    """Return a run of these trials."""
    usual: dict[str, Any] = {
        "run_id": "run-1",
        "recorded_at": datetime(2026, 11, 22, 12, 0, tzinfo=UTC),
        "configuration": "config",
        "model": "openai:some-model",
        "summary_model": "openai:some-model",
        "definitions": [Measured(slot, slot, slot, f"sha256:{slot}", f"commit-{slot}") for slot in SLOTS],
        "surface_digest": "sha256:surface",
        "repetitions": 1,
        "seconds": 1.0,
        "metrics": measured(trials, SLOTS),
        "trials": trials,
    }
    return Run(**{**usual, **fields})
