"""The alert rules on a faster clock: every window, delay and limit in seconds is divided by the same number."""

import re
from pathlib import Path
from typing import Final

from tests.support.prometheus import RULES

FASTER: Final = 30
SECONDS_OF: Final = {"s": 1, "m": 60, "h": 3600}
DURATION: Final = re.compile(r"(\[|for: |offset )(\d+)([smh])")
LIMIT_IN_SECONDS: Final = re.compile(r'((?:waiting_seconds"} >|start_time_seconds"} <) )300\b')
"""Of metrics and differences that are times; the numbers of other conditions stay as they are."""


def faster_rules(folder: Path) -> Path:
    """Write the rules of `examples/alerts` with shorter times into a folder; return the file."""
    text = DURATION.sub(_shorter, RULES.read_text(encoding="utf-8"))
    file = folder / "rules.yml"
    file.write_text(LIMIT_IN_SECONDS.sub(rf"\g<1>{300 // FASTER}", text), encoding="utf-8")
    return file


def time_of(alert: str) -> str:
    """Return how long the condition of an alert has to hold, as the rules say it; empty: not at all."""
    text = RULES.read_text(encoding="utf-8")
    body = text.partition(f"- alert: {alert}\n")[2].partition("- alert: ")[0]
    found = re.search(r"^        for: (\w+)$", body, re.MULTILINE)
    return found[1] if found else ""


def _shorter(found: re.Match[str]) -> str:
    seconds = int(found[2]) * SECONDS_OF[found[3]] / FASTER
    return f"{found[1]}{max(1, round(seconds))}s"
