"""Verdicts follow from thresholds and recorded results, and from nothing else."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from plugins.gates_manifest.tests.manifests import NOW, manifest_with, result_of
from sidecar.core.identifiers import Commit, DefinitionId, Digest
from sidecar.policy.lifecycle import GateAnswer, Verdict
from sidecar_conformance.gate_client import QUESTION
from sidecar_gates_manifest import ManifestProblem, manifest_in
from sidecar_gates_manifest.verdicts import answer_to

EXAMPLE = Path(__file__).parents[3] / "examples" / "config" / "evaluation_manifest.yaml"


def said(*results: dict[str, Any], **changes: Any) -> GateAnswer:
    """Answer the suite's question from a manifest with these results."""
    return answer_to(manifest_in(yaml.safe_dump(manifest_with(*results, **changes)).encode()), QUESTION, NOW)


def test_a_result_that_meets_every_threshold_passes_until_it_is_stale() -> None:
    """It counts for thirty days unless the manifest says otherwise."""
    answer = said(result_of(QUESTION, 0.9))

    assert answer.verdict is Verdict.PASS
    assert answer.expires_at == NOW - timedelta(hours=1) + timedelta(days=30)


def test_a_missed_threshold_fails_and_says_which() -> None:
    """With the value and what was wanted."""
    answer = said(result_of(QUESTION, 0.899))

    assert (answer.verdict, answer.summary) == (Verdict.FAIL, "task_success is 0.899, at least 0.9")


def test_the_newest_result_counts() -> None:
    """In whatever order they were written down."""
    older = result_of(QUESTION, 0.99, recorded_at=(NOW - timedelta(hours=2)).isoformat())

    assert said(older, result_of(QUESTION, 0.1)).verdict is Verdict.FAIL
    assert said(result_of(QUESTION, 0.1), older).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("results", "verdict", "summary"),
    [
        ([], Verdict.PENDING, "no result is recorded"),
        ([{"gate": "pre_full"}], Verdict.PENDING, "no result is recorded"),
        ([{"sub_agent": "rewards"}], Verdict.PENDING, "no result is recorded"),
        ([{"digest": "sha256:other"}], Verdict.PENDING, "another content only, the newest for sha256:other"),
        ([{"commit": "other"}], Verdict.PENDING, "another content only"),
        ([{"from_percent": 4}], Verdict.PENDING, "for another step only"),
        ([{"metrics": {"speed": 1}}], Verdict.INCONCLUSIVE, "the result lacks task_success"),
        ([{"recorded_at": (NOW - timedelta(days=30)).isoformat()}], Verdict.INCONCLUSIVE, "the result is stale"),
        ([{"recorded_at": (NOW + timedelta(hours=1)).isoformat()}], Verdict.INCONCLUSIVE, "is from the future"),
    ],
)
def test_anything_but_a_fresh_result_of_exactly_this_content_and_step_holds(
    results: list[dict[str, Any]], verdict: Verdict, summary: str
) -> None:
    """Missing is pending, stale is inconclusive, and one of another content or step is none at all."""
    answer = said(*(result_of(QUESTION, **changes) for changes in results))

    assert answer.verdict is verdict
    assert summary in answer.summary


def test_a_gate_without_thresholds_holds_whatever_is_recorded() -> None:
    """Nothing follows from a result if nobody has said what is wanted."""
    assert said(result_of(QUESTION), gates={"pre_merge": {}}).verdict is Verdict.INCONCLUSIVE


def test_a_sub_agents_own_thresholds_are_added_and_replace_those_of_the_same_metric() -> None:
    """Here a higher bar, and one metric more."""
    own = {"shop": {"pre_ramp": {"fresh_for": "2h", "thresholds": {"task_success": {"at_least": 0.97}}}}}
    more = {"shop": {"pre_ramp": {"thresholds": {"speed": {"at_most": 3}}}}}

    assert said(result_of(QUESTION, 0.95), sub_agents=own).verdict is Verdict.FAIL
    assert said(result_of(QUESTION, 0.98), sub_agents=own).expires_at == NOW + timedelta(hours=1)
    assert said(result_of(QUESTION, 0.95), sub_agents=more).summary == "the result lacks speed"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"version: 2\ngates: {}\n", "`version` must be 1"),
        (b"version: 1\ngates: {pre_ramp: {treshold: {}}}\n", "unknown field `treshold`"),
        (b"version: 1\ngates: {pre_ramp: {thresholds: {a: {}}}}\n", "needs `at_least` or `at_most`"),
        (b"version: 1\ngates: {pre_ramp: {thresholds: {a: {at_least: .nan}}}}\n", "finite numbers"),
        (b"version: 1\ngates: {pre_ramp: {fresh_for: soon}}\n", "whole hours or days"),
        (b"version: 1\nversion: 1\ngates: {}\n", "line 2: the key 'version' is repeated"),
        (b"version: 1\ngates: &a {}\nsub_agents: *a\n", "aliases and anchors are not allowed"),
        (b"version: 1\ngates: " + b"[" * 40, "nested too deep"),
        (b" " * (1024 * 1024 + 1), "larger than"),
        (b"\xff", "is not YAML"),
        (b"version: 1\ngates: [", "cannot be read"),
    ],
)
def test_a_manifest_that_could_surprise_is_refused(text: bytes, problem: str) -> None:
    """All gates of its verticals hold until it is mended."""
    with pytest.raises(ManifestProblem, match=problem):
        manifest_in(text)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"recorded_at": "2026-11-02T09:30:00"}, "needs its offset"),
        ({"to_percent": 100.5}, "a percentage is 0 to 100"),
        ({"to_percent": 0.001}, "two decimal places"),
        ({"metrics": {"task_success": float("inf")}}, "finite numbers"),
        ({"verdict": "pass"}, "unknown field `verdict`"),
    ],
)
def test_a_result_that_could_be_read_in_two_ways_is_refused(changes: dict[str, Any], problem: str) -> None:
    """Nobody can write a verdict down: it follows, or there is none."""
    with pytest.raises(ManifestProblem, match=problem):
        said(result_of(QUESTION, **changes))


def test_the_example_is_read_as_its_comments_say() -> None:
    """The shop's first step failed on one metric; rewards has one threshold more."""
    manifest = manifest_in(EXAMPLE.read_bytes())
    result = manifest.results[1]
    question = msgspec.structs.replace(
        QUESTION,
        definition_id=DefinitionId("shop"),
        digest=Digest(result.digest),
        commit=Commit(result.commit),
        from_ramp=0,
        to_ramp=500,
    )

    answer = answer_to(manifest, question, result.recorded_at + timedelta(hours=1))

    assert (answer.verdict, answer.summary) == (Verdict.FAIL, "switch_accuracy is 0.93, at least 0.95")
    assert set(manifest.rule_of("rewards", "pre_full")[0]) == {
        "routing_accuracy",
        "switch_accuracy",
        "failures_admitted",
        "p95_seconds",
        "entity_recall",
    }


def test_an_offline_result_counts_only_where_it_is_accepted() -> None:
    """A better one that is newer does not displace the result of a real model; a demo accepts it."""
    real = result_of(QUESTION, 0.8, recorded_at=(NOW - timedelta(hours=3)).isoformat())
    offline = result_of(QUESTION, 1.0, offline=True)
    manifest = manifest_in(yaml.safe_dump(manifest_with(real, offline)).encode())

    assert answer_to(manifest, QUESTION, NOW).verdict is Verdict.FAIL
    assert answer_to(manifest, QUESTION, NOW, accept_offline=True).verdict is Verdict.PASS
    assert said(offline).verdict is Verdict.PENDING
