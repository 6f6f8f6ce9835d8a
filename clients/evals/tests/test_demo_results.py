"""The results that the demo's gates decide by are what `sidecar eval` measures of the demo's definitions today."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from examples.demo.evaluations import EVALUATIONS, MANIFEST, Evaluation, bring_replacement, configure
from subagents_evals.inputs.configuration import Definition, read_configuration
from subagents_evals.measures.results import Run, gate_metrics
from subagents_evals.runs.evaluation_run import CaseSelection, Measuring, prepare, run

AGAIN = "run `python -m examples.demo.evaluations`, and look at what has changed"
TIMES = {"status_p95_seconds", "silence_p95_seconds", "p95_seconds"}
"""Of the machine, not of a description."""


def recorded() -> list[dict[str, Any]]:
    """Return the results in the file."""
    return list(yaml.safe_load(MANIFEST.read_text("utf-8"))["results"])


def configured(folder: Path, *, shorter: bool) -> Path:
    """Write the demo's configuration with one of the two descriptions."""
    configure(folder)
    bring_replacement(folder, shorter=shorter)
    return folder


def wish_of(one: Evaluation, folder: Path) -> Measuring:
    """Return the wish that the recorded command makes."""
    candidates = [one.definition_id] if one.definition_id != one.slot else []
    return Measuring(folder=folder, candidates=candidates, choice=CaseSelection(slots=[one.slot]))


def test_each_result_is_of_the_content_that_the_demo_serves(tmp_path: Path) -> None:
    """Digests, steps and labels: one result for each question of the rollout, in its order."""
    found: list[tuple[Any, ...]] = []
    for place, one in enumerate(EVALUATIONS):
        folder = configured(tmp_path / str(place), shorter=one.shorter)
        definition = definition_of(one, folder)
        found.append((definition.id, one.gate, definition.digest, definition.commit, one.before, one.after, True))

    fields = ("sub_agent", "gate", "digest", "commit", "from_percent", "to_percent", "offline")
    assert [tuple(result[name] for name in fields) for result in recorded()] == found, AGAIN


def definition_of(one: Evaluation, folder: Path) -> Definition:
    """Return the definition that an evaluation measures."""
    definitions = read_configuration(folder, wish_of(one, folder).candidates).definitions
    return next(each for each in definitions if each.slot == one.slot)


@pytest.mark.system
def test_playing_the_cases_again_gives_the_recorded_figures(tmp_path: Path) -> None:
    """Every figure but times, of both descriptions of one sub-agent and of the other one; the set has no gaps."""
    runs: dict[tuple[str, bool], Run] = {}
    for one, result in zip(EVALUATIONS, recorded(), strict=True):
        key = (one.slot, one.shorter)
        if key not in runs:
            wish = wish_of(one, configured(tmp_path / f"{one.slot}-{one.shorter}", shorter=one.shorter))
            runs[key] = asyncio.run(run(prepare(wish), wish))
        assert list(runs[key].gaps) == []
        assert without_times(gate_metrics(runs[key], one.slot)) == without_times(result["metrics"]), AGAIN


def without_times(metrics: Mapping[str, float]) -> Mapping[str, float]:
    """Return the figures that are the same on every machine."""
    return {name: value for name, value in metrics.items() if name not in TIMES}
