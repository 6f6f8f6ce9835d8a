"""A run as a file: the measured definitions, the model, and every trial."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from subagents_evals.inputs.configuration import Definition
from subagents_evals.measures.metrics import Metrics, figures_of
from subagents_evals.measures.trial import Trial

OFFLINE: Final = "offline"
"""The model name of the lexical router. A result of it satisfies no gate, unless its client is set to accept it."""


class Measured(msgspec.Struct, frozen=True):
    """One measured definition."""

    id: str
    slot: str
    vertical: str
    digest: str
    commit: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run over a golden set.

    Attributes:
        run_id: unique.
        recorded_at: time of the end of the run, with its offset.
        configuration: folder of the configuration, as it was given.
        model, summary_model, judge_model: `offline` for the built-in ones; an empty judge: none.
        surface_digest: digest of the digests of all definitions that the model chose among.
        repetitions: number of trials of each case.
        gaps: what the golden set does not cover.
        seconds: duration of the run.
    """

    run_id: str
    recorded_at: datetime
    configuration: str
    model: str
    summary_model: str
    judge_model: str = ""
    definitions: Sequence[Measured]
    surface_digest: str
    repetitions: int
    gaps: Sequence[str] = ()
    seconds: float
    metrics: Metrics
    trials: Sequence[Trial]

    @property
    def offline(self) -> bool:
        """Whether a model of the run was built in, so that the run says little about production."""
        return OFFLINE in {self.model, self.summary_model}


def measured_definitions(definitions: Sequence[Definition]) -> Sequence[Measured]:
    """Return the definitions in the form in which results contain them."""
    return [Measured(one.id, one.slot, one.vertical, one.digest, one.commit) for one in definitions]


def surface_digest(definitions: Sequence[Definition]) -> str:
    """Return the digest of all definitions that the routing model chose among."""
    joined = "\n".join(f"{one.slot} {one.digest}" for one in definitions)
    return f"sha256:{sha256(joined.encode()).hexdigest()}"


def gate_metrics(run: Run, slot: str) -> Mapping[str, float]:
    """Return the metrics of one sub-agent as gates compare them; a metric without a case is left out.

    Source: PC2-NFR-3, PC2-OBS-1, PC1-OBS-1, PC1-OBS-4, PC1-OBS-5, PC1-OBS-7, PC2-D-57.
    """
    figures = figures_of([one for one in run.trials if slot in one.about])
    shares = {
        "routing_accuracy": figures.routing,
        "switch_accuracy": figures.switches,
        "task_success": figures.passed,
        "intent_agreement": figures.intents,
        "entity_recall": figures.entities,
        "references_resolved": figures.resolved,
        "failures_admitted": figures.admitted,
        "safety": figures.safe,
        "format_compliance": figures.well_formed,
    }
    found = {name: round(one.value, 4) for name, one in shares.items() if one.value is not None}
    if figures.routing.of:
        found["routing_accuracy_low"] = round(figures.routing.low, 4)
    if figures.quality.mean is not None:
        found["quality"] = round(figures.quality.mean, 4)
    for name, spread in (
        ("status_p95_seconds", figures.seconds_to_status),
        ("silence_p95_seconds", figures.longest_silence),
        ("status_events_p95", figures.status_events),
        ("p95_seconds", figures.seconds_to_answer),
    ):
        if spread.p95 is not None:
            found[name] = round(spread.p95, 4)
    return {**found, "cases": float(figures.cases)}


def write_run(run: Run, file: Path) -> None:
    """Write a run as JSON."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1))


def read_run(file: Path) -> Run:
    """Read a run.

    Raises:
        ValueError: the file is not a run of this version.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=Run)
    except (OSError, msgspec.MsgspecError) as error:
        raise ValueError(f"{file}: not a run that `sidecar eval run` wrote: {error}") from None
