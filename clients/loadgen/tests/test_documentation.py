import re
import shlex
from pathlib import Path

import pytest

from subagents_loadgen.asking import EPILOG, understood

ROOT = Path(__file__).parents[3]
PAGES = ("docs/load-testing.md", "clients/loadgen/README.md")
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Return every command line that the pages show."""
    return [one for page in PAGES for one in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))]


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_pages_is_understood(command: str) -> None:
    """Every option exists and takes what is shown."""
    program, *arguments = shlex.split(command.replace("\\\n", " "))
    assert program == "subagents-loadgen"
    assert understood(arguments).plan.targets[0].address.startswith("unix:")


def test_the_page_and_the_help_tell_the_same_exit_codes() -> None:
    """Code for code and word for word."""
    page = (ROOT / PAGES[0]).read_text(encoding="utf-8").replace("`", "")
    told = dict(re.findall(r"^  (\d+) {2,}(.+)$", EPILOG, re.MULTILINE))
    assert set(told) == {"0", "1", "2", "3", "130"}
    assert dict(re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)) == told
