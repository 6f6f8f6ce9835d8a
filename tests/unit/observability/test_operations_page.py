"""`docs/operations.md` names only what exists, and every exit code."""

import re
from pathlib import Path

from sidecar.composition.process import ExitCode
from sidecar.observability import call_names, event_names, names

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
CONSTANTS = {**vars(names), **vars(call_names), **vars(event_names)}
NAMES = {value for name, value in CONSTANTS.items() if name.isupper() and "." in value}


def test_every_name_on_the_page_exists() -> None:
    """Metrics and log events, in backticks."""
    told = set(re.findall(r"`((?:ps6|sidecar|routing|security|definitions|flags)\.[a-z0-9_.]+)`", PAGE))
    settings = {"definitions.path"}
    assert told - settings - NAMES == set()


def test_every_exit_code_is_on_the_page() -> None:
    """As a row of its table."""
    assert [code for code in ExitCode if f"| {code.value} |" not in PAGE] == []
