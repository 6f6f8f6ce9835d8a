"""The 25 mistakes of a first day: each is told with its place and what to do.

`MISTAKES` are those that `sidecar serve` tells; real processes. `ELSEWHERE` names the test of each other one.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from sidecar.cli.init.repository import write_repository
from tests.architecture.reading import REPOSITORY
from tests.support.typed_commands import free_port

pytestmark = [pytest.mark.system, pytest.mark.seconds(60)]

AGENTS: Final = "config/agent_config.yaml"
SECOND_TOOL: Final = "\n  - {id: find_trips, description: d}\n\nagents:"


def edit(file: str, old: str, new: str) -> Callable[[Path], None]:
    """Return what replaces a text that a file has once."""

    def edited(folder: Path) -> None:
        path = folder / file
        text = path.read_text("utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), "utf-8")

    return edited


def emptied(folder: Path) -> None:
    """Leave the folder of the definitions empty."""
    shutil.rmtree(folder / "config")
    (folder / "config").mkdir()


def without_prompt(folder: Path) -> None:
    """Remove a prompt block."""
    (folder / "config/prompts/components/travel/persona-travel.yaml").unlink()


def without_key(_folder: Path) -> None:
    """Leave out `sidecar token key`: nothing else makes a key."""


def with_another_record(folder: Path) -> None:
    """Put something else where the record is."""
    (folder / ".run" / "operator.pub").write_text("")
    (folder / ".run" / "record").mkdir()
    (folder / ".run" / "record" / "record.sqlite").write_text("no database " * 1000)


def without_target(folder: Path) -> None:
    """Leave out where the sub-agent's host listens."""
    edit("sidecar.toml", 'travel = "unix:.run/travel.sock"', "")(folder)


def added(text: str) -> Callable[[Path], None]:
    """Return what adds lines to the settings."""

    def made(folder: Path) -> None:
        with (folder / "sidecar.toml").open("a", encoding="utf-8") as file:
            file.write(f"\n{text}\n")

    return made


MISTAKES: Final[dict[str, tuple[Callable[[Path], None], tuple[str, ...]]]] = {
    "bad YAML": (edit(AGENTS, "models:\n", "models: [\n"), ("agent_config.yaml:5: is not YAML: ",)),
    "empty folder": (emptied, ("agent_config.yaml: is missing in config; it holds `agents`, `models` and `tools`",)),
    "wrong folder": (
        edit("sidecar.toml", 'path = "config"', 'path = "confg"'),
        ("agent_config.yaml: cannot be read: the configuration root confg does not exist",),
    ),
    "missing prompt": (without_prompt, ("travel.prompt_blocks[0]: unknown prompt block", "persona-travel")),
    "duplicate tool": (
        edit(AGENTS, "\nagents:", SECOND_TOOL),
        ("tools.find_trips.id: ", "is taken: the tools have it already at agent_config.yaml:14"),
    ),
    "unknown key": (
        edit("sidecar.toml", "lame_duck", "lame_dck"),
        ("sidecar.toml: server.lame_dck: no such setting; did you mean `lame_duck`?",),
    ),
    "missing secret file": (
        without_key,
        ("operators.key.me: .run/operator.pub cannot be read: ", "create a key with `sidecar token key --key FILE`"),
    ),
    "unreadable record": (
        with_another_record,
        ("record.sqlite: .run/record/record.sqlite is damaged, or not a SQLite database: restore a backup",),
    ),
    "no target": (
        without_target,
        (
            "settings.unmatched",
            "no address of a runner host is configured for the sub-agent `travel`",
            "set `targets.slots.travel = ",
        ),
    ),
    "misspelt vertical": (
        added('[policy.verticals.travle]\nrunner = "grpc"'),
        ("policy.verticals: no definition has a vertical `travle`: ", "(did you mean `travel`?)"),
    ),
    "misplaced vertical": (
        added('[verticals.travel]\nrunner = "grpc"'),
        ("sidecar.toml: verticals: no such setting at the top level, only inside a section: `policy.verticals`, ",),
    ),
}
"""By mistake: what makes it, and what one line has to contain."""
ELSEWHERE: Final = {
    "wrong socket": (
        "clients/python/tests/test_kindness.py::test_an_unreachable_sidecar_is_named_with_its_address_and_advice"
    ),
    "wrong secret": (
        "clients/python/tests/test_kindness.py"
        "::test_an_error_of_the_sidecar_keeps_its_words_and_says_where_and_what_to_do"
    ),
    "port in use": "tests/system/test_composition.py::test_what_was_built_is_closed_when_building_fails_half_way",
    "runner down": "tests/rpc/test_breakers.py::test_a_host_that_is_away_is_named_in_log_and_timeline",
    "old Python": "tests/packages/test_packages.py::test_an_old_python_is_refused_with_the_version_that_is_needed",
    "raising": (
        "clients/python/tests/test_what_functions_return.py::test_an_error_is_one_line_with_function_file_and_line"
    ),
    "wrong type": (
        "clients/python/tests/test_what_functions_return.py"
        "::test_a_function_that_returns_no_answer_fails_by_name_and_line"
    ),
    "hanging": "tests/rpc/test_child_events.py::test_a_sub_agent_that_hangs_is_told_with_the_limit_that_ended_it",
    "no envelope": (
        "tests/rpc/test_gateway_envelopes.py::test_a_forgotten_envelope_is_an_incident_that_says_what_is_likely_wrong"
    ),
    "wrong principal": "tests/rpc/test_gateway_envelopes.py::test_a_mismatch_is_reported_as_a_security_incident",
    "stale flag": (
        "tests/cli/test_subagent.py::test_the_list_says_that_flags_are_unreachable_which_is_neither_on_nor_off"
    ),
    "denied gate": (
        "tests/cli/test_subagent.py"
        "::test_what_a_gate_refuses_or_holds_is_told_with_the_next_step_and_a_fail_can_be_overridden"
    ),
    "wrong token": "tests/cli/test_subagent_answers.py::test_a_target_that_refuses_a_kill_was_reached",
    "two sidecars in one folder": "tests/system/test_start_and_stop.py::test_a_second_sidecar_leaves_the_first_alone",
    "killed definition": (
        "tests/cli/test_subagent_answers.py::test_a_killed_definition_stays_dead_and_the_answer_says_what_to_do"
    ),
    "full disk": (
        "tests/system/torture/test_store_away.py"
        "::test_on_a_full_disk_nobody_is_called_and_the_sidecar_goes_on_when_there_is_room"
    ),
}
"""By mistake: the test that has its message."""
ALL: Final = """
bad YAML, wrong socket, wrong secret, missing prompt, duplicate tool, port in use, unknown key, runner down, old Python,
empty folder, raising, wrong type, hanging, no envelope, wrong principal, stale flag, denied gate, wrong token,
no target, misspelt vertical, missing secret file, two sidecars in one folder, unreadable record, killed definition,
full disk
"""


def test_each_of_the_mistakes_has_its_test() -> None:
    """Here or where the table says; no test is named that is not there."""
    named = [test.partition("::") for test in ELSEWHERE.values()]

    mistakes = set(" ".join(ALL.replace(",\n", ", ").split()).split(", "))
    assert len(mistakes) == 25
    assert mistakes - {*MISTAKES, *ELSEWHERE} == set()
    assert [name for file, _, name in named if f"def {name}(" not in (REPOSITORY / file).read_text("utf-8")] == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_says_what_is_wrong_and_where(mistake: str) -> None:
    """One line of the log or of the refusal has all of it, and no traceback is shown."""
    make, said = MISTAKES[mistake]
    with TemporaryDirectory(prefix="m-") as parent:
        folder = write_repository("travel", Path(parent))
        make(folder)
        environment = {**os.environ, "SIDECAR__SERVER__OPS_ADDRESS": f"127.0.0.1:{free_port()}"}
        command = [sys.executable, "-m", "sidecar", "serve", "--config", "sidecar.toml"]
        with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                seen = []
                for line in process.stderr:
                    seen.append(line)
                    if all(text in line for text in said):
                        break
                else:
                    pytest.fail(f"{said} did not come:\n{''.join(seen)}")
            finally:
                process.kill()
    assert not any("Traceback" in line for line in seen)
