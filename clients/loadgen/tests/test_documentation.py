import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from subagents_loadgen.plan import Target
from subagents_loadgen.run_request import EPILOG, RunRequest, understood
from subagents_loadgen.running import run
from subagents_loadgen.scenario_file import read_plan
from tests.support.harness import SECRET, running_sidecar_for_tests

ROOT = Path(__file__).parents[3]
PAGES = ("docs/load-testing.md", "clients/loadgen/README.md")
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Return every command line that the pages show."""
    found = [one for page in PAGES for one in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))]
    return [one for one in found if not one.startswith("pip install")]


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_pages_is_understood(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option exists and takes what is shown."""
    monkeypatch.chdir(ROOT)
    program, *arguments = shlex.split(command.replace("\\\n", " "))
    assert program == "subagents-loadgen"
    assert understood(arguments).plan.targets[0].address.startswith("unix:")


def test_the_page_and_the_help_tell_the_same_exit_codes() -> None:
    """Code for code and word for word."""
    page = (ROOT / PAGES[0]).read_text(encoding="utf-8").replace("`", "")
    told = dict(re.findall(r"^  (\d+) {2,}(.+)$", EPILOG, re.MULTILINE))
    assert set(told) == {"0", "1", "2", "3", "130"}
    assert dict(re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)) == told


async def test_the_scenario_of_the_page_runs() -> None:
    """It is the file of the examples; six operations of each stage, against a real sidecar."""
    page = (ROOT / PAGES[0]).read_text(encoding="utf-8")
    file = ROOT / "examples/load.yaml"
    assert re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) == [file.read_text(encoding="utf-8")]
    plan = read_plan(file)
    async with running_sidecar_for_tests() as sidecar:
        secret = sidecar.folder / "secret"
        secret.write_text(SECRET)
        stages = [replace(one, requests=6, warm_up=0.0, rate=500, ramp_to=None) for one in plan.stages]
        targets = [Target(sidecar.dispatch_target, secret)]
        report = await run(RunRequest(replace(plan, targets=targets, stages=stages)))
    assert report.tally.whole.count == 12
    assert (dict(report.tally.violations), dict(report.tally.errors), report.left_open) == ({}, {}, 0)
