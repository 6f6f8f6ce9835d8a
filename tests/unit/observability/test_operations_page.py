"""`docs/operations.md` and the names in the code tell the same."""

import ast
import re
from pathlib import Path

from sidecar.composition.process import ExitCode
from sidecar.observability import call_names, names, rollout_names

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
CONSTANTS = {**vars(names), **vars(call_names), **vars(rollout_names)}
NAMES = {value for name, value in CONSTANTS.items() if name.isupper() and "." in value}


def test_every_name_on_the_page_exists() -> None:
    """Metrics and log events, in backticks."""
    told = set(re.findall(r"`((?:ps6|sidecar|routing|security|definitions|flags)\.[a-z0-9_.]+)`", PAGE))
    settings = {"definitions.path"}
    assert told - settings - NAMES == set()


def test_every_log_event_is_on_the_page() -> None:
    """Those after the heading of log events in the module of names."""
    module = (ROOT / "sidecar" / "observability" / "names.py").read_text("utf-8")
    events = ast.parse("#" + module.partition("# --- log events")[2]).body
    values = [
        str(node.value.value)
        for node in events
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant)
    ]
    assert len(values) > 10
    assert [value for value in values if f"`{value}`" not in PAGE] == []


def test_every_exit_code_is_on_the_page() -> None:
    """As a row of its table."""
    assert [code for code in ExitCode if f"| {code.value} |" not in PAGE] == []
