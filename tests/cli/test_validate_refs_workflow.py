"""The example repository's workflow and owners, and the command as a process."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.config_repository import ConfigRepository
from tests.support.named_skips import needs_tool
from tests.support.requirement import requirement

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "examples" / "config"
WORKFLOW: Final = EXAMPLE / ".github" / "workflows" / "subagent-validate-refs.yml"
COMMAND: Final = 'sidecar validate-refs . --base "$BASE" --format github ${EXPORT:+--rollout-export "$EXPORT"}'
UNKNOWN: Final = (
    "::notice title=subagent-validate-refs::no definition counts as rolled back: there is no export of rollouts "
    "(--rollout-export, or `rollout_export` in subagent-validate-refs.toml)\n"
)
PAGE: Final = ROOT / "docs" / "validate-refs.md"


IDENTITY: Final = {
    f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def steps() -> list[dict[str, Any]]:
    """Return the steps of the workflow's one job."""
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    assert list(jobs) == ["validate-refs"]
    return list(jobs["validate-refs"]["steps"])


def run_step(script: str, repository: ConfigRepository, output: Path, **also: str) -> subprocess.CompletedProcess[str]:
    """Run a step's script in a shell, as a runner would; `also` is in its environment."""
    bin_folder = output.parent / "bin"
    bin_folder.mkdir(exist_ok=True)
    (bin_folder / "sidecar").write_text(f'#!/bin/sh\nexec {sys.executable} -m sidecar "$@"\n')
    (bin_folder / "sidecar").chmod(0o755)
    env = {
        "PATH": f"{bin_folder}:{os.defpath}",
        "PYTHONPATH": str(ROOT),
        "BASE": repository.git("rev-parse", "main"),
        "GITHUB_OUTPUT": str(output),
        **also,
    }
    return subprocess.run(
        [needs_tool("bash"), "-e", "-c", script],
        cwd=repository.folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@requirement("PF1-D-52", "PF1-D-53")
@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("agent_config.yaml", "yes"),
        ("prompts/components/shop/persona-shop.yaml", "yes"),
        ("src/consumer_agent/agents/shop.py", "yes"),
        ("subagent-validate-refs.toml", "yes"),
        ("README.md", "no"),
        ("src/consumer_agent/main.py", "no"),
    ],
)
def test_the_workflow_looks_at_changes_that_touch_sub_agents(path: str, answer: str, tmp_path: Path) -> None:
    """The step's own script, on a real history; what main got meanwhile does not count."""
    repository = ConfigRepository(tmp_path / "repository")
    (repository.folder / path).parent.mkdir(parents=True, exist_ok=True)
    with (repository.folder / path).open("a") as file:
        file.write("# touched\n")
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.edit(("Finds offers.", "Finds an offer."))
    repository.commit()
    repository.git("checkout", "-q", "change")
    step = next(step for step in steps() if step.get("id") == "touched")

    done = run_step(step["run"], repository, tmp_path / "output")

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "output").read_text() == f"sub_agents={answer}\n"


@requirement("PF1-D-54", "PF1-D-60")
@pytest.mark.system
def test_the_workflows_last_step_fails_the_job_of_a_forbidden_change(tmp_path: Path) -> None:
    """The installed command, called as the workflow calls it: a model swap fails, nothing at all passes."""
    repository = ConfigRepository(tmp_path / "repository")
    passed = run_step(steps()[-1]["run"], repository, tmp_path / "output")
    repository.edit(("role: native\n    model: nano", "role: native\n    model: single"))
    failed = run_step(steps()[-1]["run"], repository, tmp_path / "output")

    assert steps()[-1]["run"] == COMMAND
    assert (passed.returncode, passed.stdout) == (0, UNKNOWN + "passed: 0 errors, 0 warnings, 0 notices\n")
    assert failed.returncode == 1
    assert failed.stdout.startswith("::error file=agent_config.yaml,line=29,title=check d%2C agents.shop.model ")


@requirement("PF1-D-56")
@pytest.mark.system
def test_a_kill_that_was_published_fails_the_next_change_until_it_cleans_up(tmp_path: Path) -> None:
    """Published as the page says, fetched and used as the workflow says: an untouched list that names it is refused."""
    repository = ConfigRepository(tmp_path / "repository")
    subprocess.run([needs_tool("git"), "init", "-q", "--bare", "origin"], cwd=tmp_path, check=True, timeout=300)
    repository.git("remote", "add", "origin", str(tmp_path / "origin"))
    (publishing,) = re.findall(r"```sh\n(set -eu\n.*?)```", PAGE.read_text(), re.DOTALL)
    said = '{"definitions": [{"definition_id": "shop", "state": "rollback"}], "version": 7}'
    asked = publishing.replace("sidecar subagent list --json", f"echo '{said}'")
    place = {"RUNNER_TEMP": str(tmp_path), "GITHUB_ENV": str(tmp_path / "env"), "HOME": str(tmp_path)} | IDENTITY
    place |= {"ROLLOUTS": yaml.safe_load(WORKFLOW.read_text())["env"]["ROLLOUTS"]}

    before = run_step(steps()[-2]["run"], repository, tmp_path / "output", **place)
    nothing = (tmp_path / "env").exists()
    published = run_step(asked, repository, tmp_path / "output", **place)
    repository.git("fetch", "-q", "origin")
    fetched = run_step(steps()[-2]["run"], repository, tmp_path / "output", **place)
    export = (tmp_path / "env").read_text().strip().removeprefix("EXPORT=")
    refused = run_step(steps()[-1]["run"], repository, tmp_path / "output", EXPORT=export)

    assert [each.returncode for each in (before, published, fetched, refused)] == [0, 0, 0, 1], published.stderr
    assert asked != publishing
    assert (nothing, refused.stdout.count("::error "), UNKNOWN in refused.stdout) == (False, 1, False)
    assert "check b%2C agents.concierge.sub_agents" in refused.stdout


@requirement("PF1-D-52")
def test_the_workflow_runs_for_pull_requests_with_no_right_but_to_read() -> None:
    """Every pull request, so that it can be a required check; whole history; actions by major; no secret at hand."""
    text = WORKFLOW.read_text()
    whole = yaml.load(text, Loader=yaml.BaseLoader)

    assert set(whole["on"]) == {"pull_request", "merge_group"}
    assert whole["permissions"] == {"contents": "read"}
    assert [step["uses"] for step in steps() if "uses" in step] == ["actions/checkout@v4", "actions/setup-python@v5"]
    assert steps()[0]["with"] == {"fetch-depth": 0, "persist-credentials": False}
    assert all("steps.touched" in step["if"] for step in steps()[2:])
    assert not re.search(r"run:.*\$\{\{", text), "an expression in a script lets a branch name run commands"
    assert "secrets." not in text


@requirement("PF1-D-62")
@pytest.mark.parametrize(
    "path", ["/agent_config.yaml", "/.github/workflows/subagent-validate-refs.yml", "/subagent-validate-refs.toml"]
)
def test_the_platform_reviews_lists_of_sub_agents_and_what_checks_them(path: str) -> None:
    """The last rule that fits is the platform's; a vertical may draft the change, the platform has to agree."""
    rules = [line.split() for line in (EXAMPLE / "CODEOWNERS").read_text().splitlines() if line.startswith("/")]
    fitting = [
        owner for pattern, owner in rules if path == pattern or (pattern[-1] == "/" and path.startswith(pattern))
    ]

    assert fitting[-1] == "@example/platform"


@pytest.mark.system
def test_a_run_without_a_base_is_told_on_standard_error() -> None:
    """Exit code 2, nothing on standard output."""
    command = [sys.executable, "-m", "sidecar", "validate-refs", "examples/config"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "give the base, either --base REF or --base-dir DIR\n"
