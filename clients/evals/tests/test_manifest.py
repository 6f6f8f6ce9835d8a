"""Results in the manifest: added at the end, comments and order kept, refused where the file is not as expected."""

import threading
from pathlib import Path

import msgspec
import pytest
import yaml

from clients.evals.tests.support.trials import SLOTS, case_of, run_of, trial_of
from sidecar_gates_manifest import manifest_in
from subagents_evals.inputs.strict_yaml import UnusableFile
from subagents_evals.measures.manifest import GateStep, ManifestUnchanged, add_results, results_of
from subagents_evals.measures.thresholds import shortfalls, thresholds_of
from tests.architecture.reading import REPOSITORY
from tests.support.requirement import requirement

EXAMPLE = REPOSITORY / "examples" / "config" / "evaluation_manifest.yaml"
RUN = run_of(trial_of(case_of("one", "shop"), "shop"), trial_of(case_of("two", "shop"), "rewards"))
GATES = "version: 1\ngates: {pre_merge: {thresholds: {routing_accuracy: {at_least: 0.95}}}}\n"


def recorded(file: Path, *slots: str, gate: str = "pre_merge") -> None:
    """Add the results of the run."""
    step = GateStep(gate) if gate == "pre_merge" else GateStep(gate, 0, 5)
    add_results(file, results_of(RUN, step, slots or ("shop",), "https://ci.example.com/1"))


@pytest.mark.parametrize(
    "text",
    [
        EXAMPLE.read_text("utf-8"),
        GATES,
        GATES.rstrip(),
        GATES + "results:\n",
        GATES + "results: []\n",
        "results: []\n" + GATES,
        "results:\n- {sub_agent: a, gate: g, digest: d, commit: c, recorded_at: 2026-01-01T00:00:00Z, metrics: {}}\n"
        + GATES,
        GATES + "results:\n  # none yet\n\nsuites: [ours]\n",
    ],
)
def test_results_are_added_at_the_end_and_the_rest_stays(text: str, tmp_path: Path) -> None:
    """The gate client reads the file; every line that was there is there still."""
    file = tmp_path / "manifest.yaml"
    file.write_text(text, "utf-8")
    before = (
        manifest_in(text.encode()).results
        if "results:\n\n" not in text and "none yet" not in text and not text.endswith("results:\n")
        else ()
    )

    recorded(file)
    recorded(file, gate="pre_ramp")

    after = manifest_in(file.read_bytes())
    assert after.results[: len(before)] == before
    assert [(one.gate, one.step) for one in after.results[len(before) :]] == [
        ("pre_merge", (0, 0)),
        ("pre_ramp", (0, 500)),
    ]
    kept = [
        line
        for line in text.splitlines()
        if line.strip() and not line.startswith("results:") and "none yet" not in line
    ]
    assert [line for line in kept if line not in file.read_text("utf-8").splitlines()] == []


@pytest.mark.parametrize(
    "text", ["version: 1\ngates: {}\nresults: {a: 1}\n", "{version: 1, gates: {}, results: []}\n", "[]\n"]
)
def test_a_manifest_that_is_not_as_expected_is_left_alone(text: str, tmp_path: Path) -> None:
    """The message has what to add by hand."""
    file = tmp_path / "manifest.yaml"
    file.write_text(text, "utf-8")

    with pytest.raises(ManifestUnchanged, match="routing_accuracy"):
        recorded(file)

    assert file.read_text("utf-8") == text
    assert list(tmp_path.iterdir()) == [file]


def test_two_who_record_at_once_lose_nothing(tmp_path: Path) -> None:
    """Eight threads, eight results, and a file that can be read."""
    file = tmp_path / "manifest.yaml"
    file.write_text(GATES, "utf-8")
    threads = [threading.Thread(target=recorded, args=(file,)) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert len(manifest_in(file.read_bytes()).results) == 8


@pytest.mark.parametrize(
    "step", [("pre_merge", 0, 5), ("pre_ramp", 0, 0), ("pre_ramp", 5, 5), ("pre_full", 50, 101), ("pre", 0, 0)]
)
def test_a_step_that_no_gate_is_asked_about_is_refused(step: tuple[str, float, float]) -> None:
    """`pre_merge` comes before any ramp, the others are about a raise."""
    with pytest.raises(ValueError, match=r"pre"):
        GateStep(*step)


def test_a_result_says_whose_content_was_measured_with_what() -> None:
    """Digest and commit of the definition, the model and the surface; offline if any model was the built-in one."""
    (one,) = results_of(RUN, GateStep("pre_merge"), ["shop"], "")
    (offline,) = results_of(run_of(*RUN.trials, summary_model="offline"), GateStep("pre_merge"), ["shop"], "")

    assert (one["digest"], one["commit"], one["offline"]) == ("sha256:shop", "commit-shop", False)
    assert one["evidence"] == {"model": "openai:some-model", "run": "run-1", "surface": "sha256:surface"}
    assert one["metrics"]["routing_accuracy"] == 0.5
    assert offline["offline"] is True


def test_a_run_in_which_a_model_failed_is_not_recorded() -> None:
    """A turn that did not come to its end says nothing of a description; nor does an answer that nobody judged."""
    step = GateStep("pre_merge")
    case = case_of("one", "shop")
    whole = run_of(trial_of(case, "shop"))

    with pytest.raises(ManifestUnchanged, match="1 of 2 turns failed; one: rate limit"):
        results_of(run_of(trial_of(case, "shop"), trial_of(case, problem="rate limit")), step, [], "")
    with pytest.raises(ManifestUnchanged, match="answers that were not judged: 1"):
        results_of(msgspec.structs.replace(whole, gaps=["answers that were not judged: 1"]), step, [], "")
    assert len(results_of(whole, step, [], "")) == len(SLOTS)


@requirement("PC2-NFR-3b", "PC2-D-43")
def test_without_a_manifest_every_vertical_must_reach_95_percent() -> None:
    """Of routing accuracy."""
    short = list(shortfalls(RUN, thresholds_of(None, ["shop", "rewards"]), partial=True))

    assert short == ["shop: routing_accuracy is 0.500, at least 0.95 is required"]


@requirement("PC2-NFR-3a", "PC2-D-43")
def test_the_thresholds_are_those_that_the_gate_decides_by(tmp_path: Path) -> None:
    """The gate's, with those of the sub-agent in their place; a metric that has no case is short, too."""
    file = tmp_path / "manifest.yaml"
    own = {
        "shop": {
            "pre_merge": {"thresholds": {"routing_accuracy": {"at_least": 0.4}, "entity_recall": {"at_least": 0.9}}}
        }
    }
    file.write_text(GATES + yaml.safe_dump({"sub_agents": own}), "utf-8")

    thresholds = thresholds_of(file, ["shop", "rewards"])

    assert list(shortfalls(RUN, thresholds)) == [
        "shop: entity_recall was not measured: no case",
        "rewards: routing_accuracy was not measured: no case",
    ]
    assert list(shortfalls(RUN, thresholds, partial=True)) == []


def test_a_wrong_manifest_is_refused_with_file_and_line(tmp_path: Path) -> None:
    """A threshold that is no number."""
    file = tmp_path / "manifest.yaml"
    file.write_text(
        "version: 1\ngates:\n  pre_merge:\n    thresholds:\n      routing_accuracy: {at_least: high}\n", "utf-8"
    )

    with pytest.raises(UnusableFile, match=r"manifest\.yaml:5: Expected"):
        thresholds_of(file, ["shop"])
