"""`sidecar gate ask --simulate`: the question of a step and the effect of each answer, without asking a gate."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.adapters.system import SystemClock
from sidecar.cli.gate_command import GateTools, add_gate
from sidecar.composition.checked_policy import checked_policy, policies_of_vertical
from sidecar.core.definitions.resolve import LoadedCatalogue
from sidecar.settings import read_settings

CONFIG = Path(__file__).parents[2] / "examples" / "config"
HTTP = """
[policy.verticals.shop]
gates = {pre_full = "review"}
[gates.review]
plugin = "http"
url = "https://gates.example.com"
"""


def loaded(folder: Path, most: int) -> LoadedCatalogue:
    """Load definitions."""
    return load_directory(folder, max_sub_agents=most)


def ask(tmp_path: Path, *arguments: str, settings: str = "", config: Path = CONFIG) -> tuple[int, str]:
    """Run the command with the definitions of the example; return exit code and output."""
    file = tmp_path / "sidecar.toml"
    enabled = 'enabled = ["sidecar-gates-http", "sidecar-lifecycle-examples"]' if "policy" in settings else ""
    file.write_text(
        f'[definitions]\npath = "{config}"\n[dispatch]\nfan_out_cap = 3\n[plugins]\n{enabled}\n{settings}', "utf-8"
    )
    app, tools = typer.Typer(), GateTools(loaded, checked_policy, policies_of_vertical, SystemClock())
    add_gate(app, lambda config: read_settings(config, {}), lambda: tools)
    result = CliRunner().invoke(app, ["gate", "ask", *arguments, "--config", str(file)])
    return result.exit_code, result.output


def simulated(tmp_path: Path, *arguments: str, settings: str = "") -> list[dict[str, Any]]:
    """Return what `--json` prints."""
    code, text = ask(tmp_path, *arguments, "--simulate", "--json", settings=settings)
    assert code == 0, text
    found: list[dict[str, Any]] = json.loads(text)["gates"]
    return found


def test_the_page_shows_the_question_and_the_effect_of_each_answer(tmp_path: Path) -> None:
    """Of the promotion, if no ramp is named; an answer about anything else holds the step."""
    code, text = ask(tmp_path, "shop", "--simulate")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    (digest,) = (each["question"]["digest"] for each in simulated(tmp_path, "shop"))

    assert code == 0
    assert lines[:2] == ["policy platform allows the step; gates: pre_merge", ""]
    assert lines[2].startswith("pre_merge of shop, promotion, asks NO gate client, so the step is held: set")
    assert f"digest: {digest}" in lines
    assert (
        "an answer must repeat gate, digest, commit, from_ramp, to_ramp, policy_version, and contain an expiry time"
        in lines
    )
    assert lines[-10:] == [
        "ANSWER THE STEP IS REASON COUNTED ANOMALY",
        "pass taken - no -",
        "fail refused GATE_FAILED yes -",
        "pending held GATE_HELD no -",
        "inconclusive held GATE_HELD no -",
        "pass, expired held GATE_HELD no gate_not_believed",
        "pass for another digest held GATE_HELD no gate_not_believed",
        "pass for another step held GATE_HELD no gate_not_believed",
        "no answer in time held GATE_HELD no gate_unavailable",
        "unavailable held GATE_HELD no gate_unavailable",
    ]


def test_the_client_is_the_one_that_the_vertical_has_for_this_gate(tmp_path: Path) -> None:
    """An instance, by its name. The other gates of `shop`, and other verticals, have none."""
    questions = [("shop", "--to", "100", "--from", "25"), ("shop", "--to", "25"), ("rewards", "--to", "100")]

    found = [simulated(tmp_path, *each, settings=HTTP)[0] for each in questions]

    assert [each["client"] for each in found] == ["review", None, None]
    asked = [(each["question"]["gate"], each["question"]["from_ramp"], each["question"]["to_ramp"]) for each in found]
    assert asked == [("pre_full", 2500, 10_000), ("pre_ramp", 0, 2500), ("pre_full", 0, 10_000)]


def test_a_policy_of_the_vertical_answers_about_the_step(tmp_path: Path) -> None:
    """It answers for real: the first step of 50 points is denied, with the reason that an operator would read."""
    settings = (
        '[policy.verticals.shop]\nlifecycle = ["small"]\n[lifecycle.small]\nplugin = "largest-step"\npoints = 10\n'
    )
    code, text = ask(tmp_path, "shop", "--to", "50", "--simulate", settings=settings)

    assert (code, text.splitlines()[:2]) == (
        0,
        [
            "policy platform allows the step; gates: pre_ramp",
            "policy small DENIES the step: small: a step is at most 10 percentage points; from here up to 10 %",
        ],
    )


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("shp", "--simulate"), 2, "did you mean `shop`?"),
        (("shop", "--simulate", "--to", "5", "--from", "25"), 2, "the step needs no gate: it lowers the ramp"),
        (("shop", "--simulate", "--to", "lots"), 2, "'lots' is not a percentage"),
        (("shop",), 2, "take the step with --dry-run: `sidecar subagent promote shop --dry-run`"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_what_to_do(
    tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    """One sentence each; without `--simulate` a gate is asked by the sidecar only."""
    found, text = ask(tmp_path, *arguments)

    assert (found, says in text) == (code, True), text


def test_an_unknown_client_and_broken_definitions_are_refused_as_at_the_start(tmp_path: Path) -> None:
    """Exit code 78."""
    unknown, text = ask(tmp_path, "shop", "--simulate", settings='[policy.default]\ngates = "reveiw"\n')
    folder, where = ask(tmp_path, "shop", "--simulate", config=tmp_path)

    assert (unknown, "policy.default.gates" in text) == (78, True)
    assert (folder, "agent_config.yaml: is missing in" in where) == (78, True)
