"""Reads the thresholds of `evaluation_manifest.yaml`, which gates also use, and finds metrics that miss them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from subagents_evals.inputs.cases import Suite
from subagents_evals.inputs.strict_yaml import read_as
from subagents_evals.measures.results import Measured, Run, gate_metrics

PRE_MERGE: Final = "pre_merge"
METRIC: Final = "routing_accuracy"
LEAST: Final = 0.95
"""Minimum of `routing_accuracy` if there is no manifest. Source: PC2-NFR-3b."""


class Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Minimum and maximum of a metric; None: no bound."""

    at_least: float | None = None
    at_most: float | None = None

    def met_by(self, value: float) -> bool:
        """Return whether a value is within the bounds, which are inclusive."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        low = [] if self.at_least is None else [f"at least {self.at_least:g}"]
        high = [] if self.at_most is None else [f"at most {self.at_most:g}"]
        return " and ".join([*low, *high])


class _Rule(msgspec.Struct, frozen=True):
    thresholds: Mapping[str, Threshold] = {}


class _Manifest(msgspec.Struct, frozen=True):
    """The part of the manifest that is needed here; the gate client checks the whole."""

    gates: Mapping[str, _Rule] = {}
    sub_agents: Mapping[str, Mapping[str, _Rule]] = {}
    results: Any = None


Thresholds = Mapping[str, Mapping[str, Threshold]]
"""Definition id to metric to threshold."""


def thresholds_of(manifest: Path | None, definition_ids: list[str], gate: str = PRE_MERGE) -> Thresholds:
    """Return the thresholds that each definition must meet to pass a gate.

    Args:
        manifest: path of the manifest; None: the minimum of `routing_accuracy` is 95 % for each definition.
        definition_ids: ids of the measured definitions.
        gate: name of the gate.

    Raises:
        UnusableFile: the manifest cannot be used.
    """
    usual: Mapping[str, Threshold] = {METRIC: Threshold(at_least=LEAST)}
    if manifest is None:
        return dict.fromkeys(definition_ids, usual)
    read, _ = read_as(manifest, _Manifest)
    general = read.gates.get(gate, _Rule()).thresholds
    own = {one: read.sub_agents.get(one, {}).get(gate, _Rule()).thresholds for one in definition_ids}
    return {one: {**general, **own[one]} or usual for one in definition_ids}


def with_judges(thresholds: Thresholds, suite: Suite, definitions: Sequence[Measured]) -> Thresholds:
    """Return the thresholds with `quality` of each vertical that has a judge; the manifest's own `quality` wins.

    Source: PC1-T-13, PC2-T-18.
    """
    by_id = {one.id: suite.judges[one.slot] for one in definitions if one.slot in suite.judges}
    return {
        one: {"quality": Threshold(at_least=by_id[one].at_least), **own} if one in by_id else own
        for one, own in thresholds.items()
    }


def shortfalls(run: Run, thresholds: Thresholds, *, partial: bool = False) -> Iterator[str]:
    """Yield one sentence for each definition and metric that does not meet its threshold.

    A metric without any case is short, too, unless only part of the set was played (`partial`).

    Metrics that evaluations never measure, e.g. `wrong_principal`, are other suites' business.
    """
    for one in run.definitions:
        found = gate_metrics(run, one.slot)
        for name, threshold in thresholds.get(one.id, {}).items():
            if name in MEASURED and name not in found and not partial:
                yield f"{one.id}: {name} was not measured: no case"
            elif name in found and not threshold.met_by(found[name]):
                yield f"{one.id}: {name} is {found[name]:.3f}, {threshold} is required"


MEASURED: Final = frozenset(
    "routing_accuracy routing_accuracy_low switch_accuracy task_success intent_agreement entity_recall "
    "references_resolved failures_admitted safety format_compliance quality "
    "status_p95_seconds silence_p95_seconds status_events_p95 p95_seconds cases".split()
)
